package webserver

import (
	"fmt"
	"slices"
	"strings"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
)

// drainSeconds is for how long a pod that is being deleted serves on: until
// every node has heard that it is to get no new connections, and every client
// of a kept one, that it is to make another. Measured on the local cluster: one
// second loses new connections, two do not, and clients that ask every two
// seconds need three (docs/decisions/0010-draining.md).
const drainSeconds = 5

// Where things are in the pod, and under which names in the ConfigMap that is
// mounted over configPath. nginx includes what ends in .conf there.
const (
	configPath  = "/etc/nginx/conf.d"
	contentPath = "/usr/share/nginx/html"
	tlsPath     = "/etc/nginx/tls"

	serverFile  = "default.conf"      // what serves
	testFile    = "default.conf.test" // the same with constant paths of certificate and key
	snippetFile = "server.snippet"    // the user's text

	drainingFile = "/run/draining"
	statusPort   = 9180 // of stub_status, on loopback only
)

// site is what the text of our nginx configuration depends on.
type site struct {
	snippet    string // the user's text; "" for none
	tls        bool
	monitoring bool
}

// files are the keys of the ConfigMap that is mounted over configPath. The
// user's text is a file of its own, so that it cannot end our server block,
// and nginx's messages count its lines as the user does.
func (s site) files() map[string]string {
	f := map[string]string{serverFile: s.text("$webserver_tls")}
	if s.tls {
		f[testFile] = s.text(tlsPath)
	}
	if s.snippet != "" {
		f[snippetFile] = s.snippet
	}
	return f
}

// text is the configuration, with certificate and key in the folder tls.
func (s site) text(tls string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	theirs, _ := webserverv1.Directives(s.snippet) // what is wrong with it, nginx says
	unlessTheirs := func(name, value string) {
		if !slices.Contains(theirs, name) {
			line("    %s %s;", name, value)
		}
	}

	line("# Made by platform-operator from a WebServer.")
	if s.tls {
		// "set" would not do: it runs after the handshake.
		line("# With a variable in their paths, certificate and key are read at each handshake.")
		line("map '' $webserver_tls {")
		line("    default %s;", tlsPath)
		line("}")
	}
	line("server {")
	line("    listen %d;", nginxPort)
	if s.tls {
		line("    listen %d ssl;", tlsPort)
		line("    ssl_certificate %s/tls.crt;", tls)
		line("    ssl_certificate_key %s/tls.key;", tls)
		unlessTheirs("ssl_protocols", "TLSv1.2 TLSv1.3")
	}
	unlessTheirs("root", contentPath)
	unlessTheirs("index", "index.html")
	// What is about to end tells its clients so. A header with an empty value
	// is not sent.
	line("    set $webserver_draining '';")
	line("    if (-f %s) {", drainingFile)
	line("        set $webserver_draining close;")
	line("    }")
	line("    add_header Connection $webserver_draining always;")
	if s.snippet != "" {
		line("    include %s/%s;", configPath, snippetFile)
	}
	line("}")
	if s.monitoring {
		line("server {")
		line("    listen 127.0.0.1:%d;", statusPort)
		line("    access_log off;")
		line("    location = /stub_status {")
		line("        stub_status;")
		line("    }")
		line("    location / {")
		line("        return 404;")
		line("    }")
		line("}")
	}
	return b.String()
}
