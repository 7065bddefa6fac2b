package nginxconf

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Another image may have servers of its own, which a generated configuration would
// hide.
func TestIsOfficialImage(t *testing.T) {
	for image, want := range map[string]bool{
		"nginx": true, "nginx:1.27.4": true, "docker.io/library/nginx:1": true, "library/nginx@sha256:ab": true, "nginx:1@sha256:ab": true,
		"registry.example:5000/nginx": false, "registry.example/nginx:1": false, "nginx-shop": false, "nginx/nginx": false, "localhost:5000": false, "": false,
	} {
		if got := IsOfficialImage(image); got != want {
			t.Errorf("%q: %v, want %v", image, got, want)
		}
	}
}

// The hook of a pod without a shell would fail at once.
func TestHasShell(t *testing.T) {
	for image, want := range map[string]bool{
		"nginx:1.27.4":                               true,
		"registry.example:5000/team/shop:1":          true,
		"cgr.dev/team/nginx":                         false,
		"registry.example/chainguard/nginx:1":        false,
		"registry.example/nginx-distroless@sha256:0": false,
	} {
		if got := HasShell(image); got != want {
			t.Errorf("%s: %t, want %t", image, got, want)
		}
	}
}

func TestListensOnIPv6(t *testing.T) {
	for text, want := range map[string]bool{
		"listen [::]:80;": true, "root /srv; listen [::] default_server;": true, "listen [0::0]:80 ipv6only=on;": true, "listen [::]:80; location {": true,
		"": false, "listen [::]:81;": false, "listen [::1]:80;": false, "listen *:80;": false, "listen [::]:80 quic;": false, "a { listen [::]:80; }": false,
	} {
		if got := ListensOnIPv6(text, HTTPPort); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestSurroundings_Conflicts(t *testing.T) {
	official := Surroundings{Known: true}
	tls := Surroundings{Known: true, TLS: true}
	http3 := Surroundings{Known: true, TLS: true, HTTP3: true}
	monitored := Surroundings{Known: true, Monitoring: true}
	for name, tc := range map[string]struct {
		in   Surroundings
		text string
		want []string
	}{
		"nothing":                {official, "", nil},
		"a text with an error":   {official, "location / {} location / {", nil},
		"two locations":          {official, "location / {}\nlocation /a {}", nil},
		"a location twice":       {official, "location /a {}\n\nlocation /a {}", []string{`line 3: location "/a" exists already in line 1: merge the two blocks`}},
		"a location three times": {official, "location /a {}\nlocation /a {}\nlocation /a {}", []string{`line 2: location "/a" exists already in line 1: merge the two blocks`, `line 3: location "/a" exists already in line 1: merge the two blocks`}},
		"a location with another case, and with a slash": {official, "location /a {} location /A {} location /a/ {}", nil},
		"exact and prefix":                {official, "location = /a {} location /a {} location ~ /a {} location ~* /a {}", nil},
		"exact twice":                     {official, "location = /a {} location =/a {}", []string{`line 1: location "=/a" exists already in line 1: merge the two blocks`}},
		"a modifier that is no other":     {official, "location ^~ /a {} location /a {}", []string{`line 1: location "/a" exists already in line 1: merge the two blocks`}},
		"a modifier without a space":      {official, "location ^~/a {} location /a {}", []string{`line 1: location "/a" exists already in line 1: merge the two blocks`}},
		"a regular expression twice":      {official, "location ~ a {} location ~ a {} location ~a {} location ~a {}", nil},
		"a named location twice":          {official, "location @a {} location @a {}", nil},
		"one name in quotes":              {official, `location "/a b" {} location '/a b' {}`, []string{`line 1: location "/a b" exists already in line 1: merge the two blocks`}},
		"in two blocks":                   {official, "location /a { location /a/b {} } location /a/ { location /a/b {} }", nil},
		"twice in a block":                {official, "location /a { location /a/b {}\nlocation /a/b {} }", []string{`line 2: location "/a/b" exists already in line 1: merge the two blocks`}},
		"outer and inner":                 {official, "location /a { location /a {} }", nil},
		"a location in a comment":         {official, "location /a {}\n# location /a {}", nil},
		"a location in a text":            {official, "location /a { return 200 'location /a {}'; }", nil},
		"a listen of its own":             {official, "listen 8080; listen 8081; listen 127.0.0.1:8080; listen [::]:8080; listen [::1]:8080; listen unix:/tmp/a;", nil},
		"IPv6 of the same port":           {official, "listen [::]:80;", nil},
		"loopback of the same port":       {official, "listen 127.0.0.1; listen 127.0.0.1:81;", nil},
		"a host name":                     {official, "listen localhost:8080; listen localhost:8080; listen 8080-8090;", nil},
		"port 80":                         {official, "root /srv;\nlisten 80;", []string{"line 2: the server block listens on port 80 already: remove this listen"}},
		"port 80 in other words":          {official, "listen *:80; listen 0.0.0.0 default_server; listen *;", []string{"line 1: the server block listens on port 80 already: remove this listen", "line 1: the server block listens on port 80 already: remove this listen", "line 1: the server block listens on port 80 already: remove this listen"}},
		"one listen twice":                {official, "listen 8080;\nlisten 0.0.0.0:8080;", []string{"line 2: listen 0.0.0.0:8080 has the address and port of line 1: remove one of them"}},
		"one address twice":               {official, "listen [::1]:81;\nlisten [0::1]:81;", []string{"line 2: listen [0::1]:81 has the address and port of line 1: remove one of them"}},
		"port 443":                        {official, "listen 443;", nil},
		"port 443 with TLS":               {tls, "listen 443 ssl;", []string{"line 1: the server block listens on port 443 already: remove this listen"}},
		"the proxy protocol":              {official, "listen 80 proxy_protocol;", []string{"line 1: the server block listens on port 80 already, and proxy_protocol cannot be set there: remove this listen, or use another port and a Service of your own"}},
		"port 443 of UDP":                 {tls, "listen 443 quic reuseport;", nil},
		"port 443 of UDP twice":           {http3, "listen 443 quic;\nlisten [::]:443 quic reuseport;", []string{"line 1: the server block listens on port 443 of UDP already, because spec.tls.http3 is set: remove this listen", "line 2: the server block listens on port 443 of UDP already"}},
		"other ports of UDP":              {http3, "listen 8443 quic; listen 127.0.0.1:443 quic; location / { http3 off; }", nil},
		"HTTP/3 twice":                    {http3, "http2 on; http3 on;", []string{"line 1: spec.tls.http3 sets http3 already: remove this directive"}},
		"HTTP/3 of its own":               {tls, "listen 443 quic reuseport; http3 on;", nil},
		"TLS with its own port":           {tls, "listen 8443 ssl;", nil},
		"TLS without a certificate":       {official, "listen 8443 ssl;", []string{"line 1: listen 8443 ssl requires a certificate: set spec.tls, or add ssl_certificate and ssl_certificate_key"}},
		"QUIC without a certificate":      {official, "listen 8443 quic;", []string{"line 1: listen 8443 quic requires a certificate: set spec.tls, or add ssl_certificate and ssl_certificate_key"}},
		"TLS with a certificate":          {official, "listen 8443 ssl; ssl_certificate /a; ssl_certificate_key /b;", nil},
		"TLS that is refused":             {official, "listen 8443 ssl; ssl_reject_handshake on;", nil},
		"TLS with an included file":       {official, "listen 8443 ssl; include /tls/*.conf;", nil},
		"TLS of another image":            {Surroundings{}, "listen 8443 ssl;", nil},
		"TLS before Lua":                  {official, "listen 8443 ssl; content_by_lua_block { } ssl_certificate /a;", nil},
		"the port of the exporter":        {monitored, "listen 9113;", []string{"line 1: the metrics exporter in the pod listens on port 9113: use another port, or disable spec.monitoring"}},
		"the port of an absent exporter":  {official, "listen 9113; listen 127.0.0.1:9180;", nil},
		"that port on loopback":           {monitored, "listen localhost:9113;", []string{"line 1: the metrics exporter in the pod listens on port 9113: use another port, or disable spec.monitoring"}},
		"the port of the status":          {monitored, "listen 127.0.0.1:9180;", []string{"line 1: the metrics exporter reads the status of nginx from 127.0.0.1:9180: use another port, or disable spec.monitoring"}},
		"the port of the counts":          {Surroundings{Judged: true}, "listen 9182;", []string{"line 1: the container that counts requests listens on port 9182: use another port, or remove spec.rollout.canary.maxErrorRatio"}},
		"the port of absent counts":       {official, "listen 9182;", nil},
		"the port of the status, not its": {monitored, "listen 9180; listen 9114;", nil},
		"files of the image":              {official, "include mime.types; include /etc/nginx/snippets/*.conf; location / { include fastcgi_params; }", nil},
		"files that do not match":         {official, "include conf.d/x*.conf; include /etc/nginx/conf.d/[!dhs]*;", nil},
		"its own folder": {official, "include conf.d/*;", []string{
			"line 1: include conf.d/* is not possible, because /etc/nginx/conf.d contains only this configuration and the server block that includes it: mount the files in another folder, and include them from there",
		}},
		"its own folder, of another prefix": {Surroundings{}, "include conf.d/*;", nil},
		"itself, in a location":             {Surroundings{}, "location / {\n\tinclude /etc/nginx/conf.d/server.snippet;\n}", []string{"line 2: include /etc/nginx/conf.d/server.snippet is not possible"}},
		"a file that does not exist":        {official, "include conf.d/a.conf;", []string{"line 1: include conf.d/a.conf is not possible"}},
		"folders of any name":               {official, "include /etc/nginx/*/*.conf;", []string{"line 1: include /etc/nginx/*/*.conf is not possible"}},
		"variables":                         {official, "set $a $b; return 301 https://${host}a$request_uri; rewrite ^/(.*)$ /x/$1 last; location ~ ^/a$ { try_files $uri $uri/ =404; }", nil},
		"an open variable":                  {official, "set $a ${b;", []string{`line 1: the variable ${b in "set" has no closing brace: write ${b}`}},
		"an open variable in a block":       {official, "location / {\n\treturn 200 'a ${host b';\n}", []string{`line 2: the variable ${host in "return" has no closing brace: write ${host}`}},
		"a dollar sign":                     {official, "return 200 '5$';", []string{`line 1: a dollar sign in "return" has no variable: write the name of a variable behind it, or remove it`}},
		"dollar signs of other directives":  {official, `sub_filter_types a; if ($uri ~ "^/${b") { return 404; } server_name ~^a$; log_not_found off; rewrite ^/a$ /b;`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.in.Conflicts(tc.text)
			for i := range got {
				if i < len(tc.want) && strings.HasPrefix(got[i], tc.want[i]) && !strings.HasSuffix(tc.want[i], "there") {
					got[i] = tc.want[i]
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
