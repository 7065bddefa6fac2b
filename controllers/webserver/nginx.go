package webserver

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/judge"
	"github.com/platform-operator/platform-operator/pkg/nginxconf"
)

// Paths in the pod, and keys of the ConfigMap that is mounted at configPath. nginx
// includes the files in that folder that end in .conf.
const (
	configPath  = nginxconf.Folder
	contentPath = "/usr/share/nginx/html"
	keptPath    = "/usr/share/nginx/kept" // the content of other revisions
	tlsPath     = "/etc/nginx/tls"

	serverFile  = nginxconf.ServerFile  // the configuration that is used
	testFile    = "default.conf.test"   // the same with constant paths of certificate and key
	snippetFile = nginxconf.SnippetFile // the user's snippet
	httpFile    = nginxconf.HTTPFile    // the user's text for the http block
	ipv6File    = "ipv6.snippet"        // what the server listens on if the kernel has IPv6

	drainingFile = "/run/draining"
	statusPort   = nginxconf.StatusPort
)

// announcement tells clients of HTTPS that there is HTTP/3. It is repeated wherever the user's
// text sets headers, which replace those of the server.
const announcement = "add_header Alt-Svc $webserver_alt_svc always;"

// site contains what the generated nginx configuration depends on.
type site struct {
	snippet    string // of the user; "" for none
	http       string // of the user, for the http block; "" for none
	port       int    // of HTTP; 0 for nginxPort
	tls        bool
	http3      bool
	monitoring bool
	judged     bool
	keep       *webserverv1.Keep // nil for no content of other revisions
}

// files returns the content of the ConfigMap that is mounted at configPath. The
// user's snippet is a file of its own, so that it cannot terminate the generated
// server block, and nginx reports the user's line numbers.
func (s site) files() map[string]string {
	f := map[string]string{serverFile: s.text("$webserver_tls"), ipv6File: s.ipv6()}
	if s.tls {
		f[testFile] = s.text(tlsPath)
	}
	if s.snippet != "" {
		f[snippetFile] = s.snippet
		if s.http3 {
			f[snippetFile] = nginxconf.WithHeader(s.snippet, announcement)
		}
	}
	if s.http != "" {
		f[httpFile] = s.http
	}
	return f
}

// ipv6 returns the addresses to listen on if the kernel has IPv6, except for those
// of the user.
func (s site) ipv6() string {
	var text string
	if port := cmp.Or(s.port, nginxPort); !nginxconf.ListensOnIPv6(s.snippet, port) {
		text = fmt.Sprintf("listen [::]:%d;\n", port)
	}
	if s.tls && !nginxconf.ListensOnIPv6(s.snippet, tlsPort) {
		text += fmt.Sprintf("listen [::]:%d ssl;\n", tlsPort)
	}
	if s.http3 {
		text += fmt.Sprintf("listen [::]:%d quic reuseport;\n", tlsPort)
	}
	return text
}

// judgedLog returns the log of which the judge counts the lines: what belongs into the http block
// and into the server block. It is next to the log of nginx.conf, which one in the server block
// would replace, unless the user has one there.
func (s site) judgedLog(own bool) (inHTTP, inServer string) {
	if !s.judged {
		return "", ""
	}
	inHTTP = "log_format webserver_judge $status;\nmap $http_user_agent $webserver_judged {\n    default 1;\n    ~^kube-probe/ 0;\n}\n"
	log := fmt.Sprintf("access_log syslog:server=127.0.0.1:%d,nohostname,tag=nginx webserver_judge if=$webserver_judged;\n", judge.Port)
	if own {
		return inHTTP, "    " + log
	}
	return inHTTP + log, ""
}

// text returns the configuration, with certificate and key in the folder tls.
func (s site) text(tls string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	theirs, _ := nginxconf.Directives(s.snippet) // nginx reports errors in the texts
	ownLog := slices.Contains(theirs, "access_log")
	inHTTP, _ := nginxconf.Directives(s.http)
	theirs = append(theirs, inHTTP...)
	unlessTheirs := func(name, value string) {
		if !slices.Contains(theirs, name) {
			line("    %s %s;", name, value)
		}
	}

	line("# Made by platform-operator from a WebServer.")
	if s.http != "" {
		line("include %s/%s;", configPath, httpFile)
	}
	if s.tls {
		// "set" is evaluated after the handshake, which is too late.
		line("# With a variable in their paths, certificate and key are read at each handshake.")
		line("map '' $webserver_tls {")
		line("    default %s;", tlsPath)
		line("}")
	}
	if s.http3 {
		line("# Clients of a node port find HTTP/3 at the same number. nginx may not have the port of HTTP/3 requests.")
		line(`map "$https:$http_host" $webserver_http3 {`)
		line("    default '';")
		line(`    "~^on:.*:(?<webserver_port>[0-9]+)$" 'h3=":$webserver_port"; ma=86400';`)
		line(`    "~^on:." 'h3=":%d"; ma=86400';`, tlsPort)
		line("}")
	}
	line("map $server_protocol $webserver_close {")
	line("    HTTP/1.0 close;")
	line("    HTTP/1.1 close;")
	line("}")
	if s.keep != nil {
		line("map $uri $webserver_kept {")
		line("    volatile;")
		line("    default '';")
		for _, path := range s.keep.Paths {
			line(`    "~^%s" $uri;`, regexp.QuoteMeta(string(path)))
		}
		line("}")
	}
	format, log := s.judgedLog(ownLog)
	b.WriteString(format)
	line("server {")
	b.WriteString(log)
	line("    listen %d;", cmp.Or(s.port, nginxPort))
	if s.http3 {
		line("    http3 on;") // the first: the error of an nginx without it is recognized
		line("    listen %d quic reuseport;", tlsPort)
	}
	if s.tls {
		line("    listen %d ssl;", tlsPort)
		line("    ssl_certificate %s/tls.crt;", tls)
		line("    ssl_certificate_key %s/tls.key;", tls)
		unlessTheirs("ssl_protocols", "TLSv1.2 TLSv1.3")
	}
	line("    # Without IPv6 in the kernel, nginx would not start, and this pattern matches no file.")
	line("    include /proc/sys/net/ipv6/../../../..%s/%s[t];", configPath, strings.TrimSuffix(ipv6File, "t"))
	if s.keep == nil {
		unlessTheirs("root", contentPath)
	} else {
		line("    set $webserver_root %s;", contentPath)
		for _, version := range slices.Backward(carried.Versions(int(s.keep.Revisions))) {
			line("    if (-f %[1]s/%[2]s$webserver_kept) {", keptPath, version)
			line("        set $webserver_root %[1]s/%[2]s;", keptPath, version)
			line("    }")
		}
		line("    if (-f %s$uri) {", contentPath)
		line("        set $webserver_root %s;", contentPath)
		line("    }")
		line("    root $webserver_root;") // nginx rejects a second one, which would keep nothing
	}
	unlessTheirs("index", "index.html")
	// A terminating pod tells its clients to close their connections. In HTTP/2 and
	// HTTP/3 this header makes a response malformed. nginx does not send headers with
	// an empty value.
	line("    set $webserver_draining '';")
	line("    if (-f %s) {", drainingFile)
	line("        set $webserver_draining $webserver_close;")
	line("    }")
	line("    add_header Connection $webserver_draining always;")
	if s.http3 {
		line("    set $webserver_alt_svc $webserver_http3;") // before the captures of locations, which it would replace
		line("    %s", announcement)
	}
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
