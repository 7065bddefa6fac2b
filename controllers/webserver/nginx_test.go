package webserver

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSite_Text(t *testing.T) {
	for name, tc := range map[string]struct {
		site site
		want string
	}{
		"nothing asked for": {site{}, `# Made by platform-operator from a WebServer.
server {
    listen 80;
    root /usr/share/nginx/html;
    index index.html;
    set $webserver_draining '';
    if (-f /run/draining) {
        set $webserver_draining close;
    }
    add_header Connection $webserver_draining always;
}
`},
		"the user's own root and index": {site{snippet: "root /srv;\nindex a.html;"}, `# Made by platform-operator from a WebServer.
server {
    listen 80;
    set $webserver_draining '';
    if (-f /run/draining) {
        set $webserver_draining close;
    }
    add_header Connection $webserver_draining always;
    include /etc/nginx/conf.d/server.snippet;
}
`},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.site.files()[serverFile]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A generated location would conflict with the user's.
func TestSite_GeneratesNoLocation(t *testing.T) {
	for _, s := range []site{{}, {tls: true}, {snippet: "location / {}", tls: true}} {
		if text := s.files()[serverFile]; strings.Contains(text, "location") {
			t.Errorf("%+v:\n%s", s, text)
		}
	}
}

func TestSite_Files(t *testing.T) {
	for name, tc := range map[string]struct {
		site site
		want []string
	}{
		"plain":     {site{}, []string{"default.conf"}},
		"with text": {site{snippet: "x;"}, []string{"default.conf", "server.snippet"}},
		"tls":       {site{tls: true}, []string{"default.conf", "default.conf.test"}},
		"all":       {site{snippet: "x;", tls: true, monitoring: true}, []string{"default.conf", "default.conf.test", "server.snippet"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := tc.site.files()
			if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(files))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for file := range files {
				// nginx includes conf.d/*.conf, which must match only one of them.
				if strings.HasSuffix(file, ".conf") != (file == serverFile) {
					t.Errorf("nginx would include %s by itself, or not include %s", file, serverFile)
				}
			}
		})
	}
}

// The tested configuration differs from the served one only in the two paths.
func TestSite_TestedConfigurationMatchesTheServed(t *testing.T) {
	files := site{snippet: "x;", tls: true, monitoring: true}.files()
	constant := strings.NewReplacer("$webserver_tls/tls.", "/etc/nginx/tls/tls.").Replace(files[serverFile])
	if diff := cmp.Diff(constant, files[testFile]); diff != "" {
		t.Errorf("(-serves +tested):\n%s", diff)
	}
	if strings.Count(files[serverFile], "$webserver_tls/") != 2 {
		t.Errorf("certificate and key are not both read through a variable:\n%s", files[serverFile])
	}
}
