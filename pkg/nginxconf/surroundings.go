package nginxconf

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// What the pods of a WebServer listen on, and the folder of the configuration.
const (
	HTTPPort  = 80
	HTTPSPort = 443
	// StatusPort is that of stub_status, only on the loopback interface.
	StatusPort = 9180
	// ExporterPort is that of the metrics exporter, on all addresses.
	ExporterPort = 9113
	// JudgePort is that of the counts of canaries, on all addresses.
	JudgePort = 9182
	// Folder contains only the files of the operator.
	Folder = "/etc/nginx/conf.d"
	// ServerFile is the configuration that nginx uses. It includes the user's texts for
	// its server block and for the http block.
	ServerFile  = "default.conf"
	SnippetFile = "server.snippet"
	HTTPFile    = "http.snippet"
)

// The folders that nginx writes to, which are volumes, because the root file
// system is read-only unless the spec says otherwise.
const (
	CacheFolder     = "/var/cache/nginx"
	RunFolder       = "/run"
	TemporaryFolder = "/tmp"
)

// prefix is the folder of relative paths in the official image.
const prefix = "/etc/nginx"

// IsOfficialImage reports whether an image is the official one of nginx. The
// configuration of other images is not known.
func IsOfficialImage(image string) bool {
	return slices.Contains([]string{"nginx", "library/nginx", "docker.io/nginx", "docker.io/library/nginx"}, repository(image))
}

// HasShell reports whether an image contains a shell, as images that are built from the
// official one do: false if its name says that it is one without.
func HasShell(image string) bool {
	name := repository(image)
	return !strings.HasPrefix(name, "cgr.dev/") && !slices.ContainsFunc([]string{"distroless", "chainguard"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}

// repository returns the name of an image without its tag and digest.
func repository(image string) string {
	name, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	return name
}

// Surroundings are what a text is combined with: the server block that includes
// it, the rest of the configuration, and the other containers of the pod.
type Surroundings struct {
	// Port is that of HTTP; 0 means HTTPPort.
	Port int
	// TLS reports whether the server block has a certificate, and listens on
	// HTTPSPort.
	TLS bool
	// HTTP3 reports whether it listens on HTTPSPort of UDP, too.
	HTTP3 bool
	// Monitoring reports whether the exporter is in the pod.
	Monitoring bool
	// Judged reports whether the container that counts requests is in the pod.
	Judged bool
	// Known reports whether nginx.conf is that of the official image.
	Known bool
}

// Conflicts returns why nginx would reject a text that ServerBlock accepts, or
// why the pod would not work with it. It returns only what is certain: what files
// that the text includes contain is not known.
func (s Surroundings) Conflicts(text string) []string {
	all, complete, err := parse(text)
	if err != nil {
		return nil
	}
	c := conflicts{Surroundings: s, locations: map[location]int{}, sockets: map[socket]int{
		{address: anyAddress, port: cmp.Or(s.Port, HTTPPort)}: 0,
	}}
	if s.TLS {
		c.sockets[socket{address: anyAddress, port: HTTPSPort}] = 0
	}
	// A directive that is not seen may set a certificate.
	c.certificate = s.TLS || !s.Known || !complete || slices.ContainsFunc(all, func(d directive) bool {
		return d.block == 0 && slices.Contains([]string{"include", "ssl_certificate", "ssl_reject_handshake"}, d.name())
	})
	for _, d := range all {
		c.check(d)
	}
	return c.found
}

// HTTPConflicts returns why nginx would reject a text that HTTPBlock accepts. It returns
// only what is certain.
func (s Surroundings) HTTPConflicts(text string) []string {
	all, _, err := parse(text)
	if err != nil {
		return nil
	}
	c := conflicts{Surroundings: s}
	for _, d := range all {
		switch d.name() {
		case "include":
			if len(d.words) == 2 {
				c.include(d)
			}
		case "default_type", "sendfile", "keepalive_timeout":
			// https://github.com/nginx/docker-nginx: nginx.conf
			if d.block == 0 && s.Known {
				c.add(d, "nginx.conf of the image sets %q for the http block already: put it into the server block, spec.config.inline", d.name())
			}
		}
	}
	return c.found
}

// conflicts collects the conflicts of a text.
type conflicts struct {
	Surroundings
	certificate bool
	locations   map[location]int // and their lines
	sockets     map[socket]int   // and their lines; 0 is the operator's
	found       []string
}

func (c *conflicts) check(d directive) {
	switch {
	case d.name() == "location" && d.opens:
		c.location(d)
	case d.opens:
	case d.name() == "listen" && d.block == 0 && len(d.words) > 1:
		c.listen(d)
	case d.name() == "include" && len(d.words) == 2:
		c.include(d)
	case c.HTTP3 && d.name() == "http3" && d.block == 0:
		c.add(d, "spec.tls.http3 sets http3 already: remove this directive")
	default:
		c.variables(d)
	}
}

func (c *conflicts) add(d directive, format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf("line %d: ", d.line)+fmt.Sprintf(format, args...))
}

// location identifies a location of a block.
type location struct {
	block int
	exact bool
	name  string
}

// location rejects a location that the same block contains already. As in nginx
// (ngx_http_join_exact_locations), ^~ does not distinguish a location from one
// without a modifier, and the order of regular expressions matters.
func (c *conflicts) location(d directive) {
	l := location{block: d.block}
	switch args := d.words[1:]; {
	case len(args) == 2 && args[0] == "=":
		l.exact, l.name = true, args[1]
	case len(args) == 2 && args[0] == "^~":
		l.name = args[1]
	case len(args) != 1:
		return
	case strings.HasPrefix(args[0], "="):
		l.exact, l.name = true, args[0][1:]
	case strings.HasPrefix(args[0], "^~"):
		l.name = args[0][2:]
	case strings.HasPrefix(args[0], "~"), strings.HasPrefix(args[0], "@"):
		return
	default:
		l.name = args[0]
	}
	if line, twice := c.locations[l]; twice {
		c.add(d, "location %q exists already in line %d: merge the two blocks", strings.Join(d.words[1:], " "), line)
		return
	}
	c.locations[l] = d.line
}

// anyAddress is the address of a listen directive without one.
const anyAddress = "0.0.0.0"

// socket is what a server listens on. The address is "" if it is not known,
// because it is a host name.
type socket struct {
	address string
	port    int // 0 if it is not known
	quic    bool
}

func (c *conflicts) listen(d directive) {
	at := socketOf(d.words[1])
	at.quic = slices.Contains(d.words[2:], "quic")
	if (at.quic || slices.Contains(d.words[2:], "ssl")) && !c.certificate {
		c.add(d, "listen %s requires a certificate: set spec.tls, or add ssl_certificate and ssl_certificate_key", strings.Join(d.words[1:], " "))
	}
	switch {
	case at.quic:
		if c.HTTP3 && at.port == HTTPSPort && (at.address == anyAddress || at.address == "::") {
			c.add(d, "the server block listens on port %d of UDP already, because spec.tls.http3 is set: remove this listen", at.port)
		}
	case at.port == 0 || c.reserved(d, at) || at.address == "":
	default:
		c.once(d, at)
	}
}

// once rejects a TCP socket that the server block has already.
func (c *conflicts) once(d directive, at socket) {
	// The server has these in any case.
	others := slices.DeleteFunc(slices.Clone(d.words[2:]), func(word string) bool { return word == "ssl" || word == "default_server" })
	switch line, twice := c.sockets[at]; {
	case !twice:
		c.sockets[at] = d.line
	case line == 0 && len(others) > 0:
		c.add(d, "the server block listens on port %d already, and %s cannot be set there: remove this listen, or use another port and a Service of your own", at.port, strings.Join(others, " "))
	case line == 0:
		c.add(d, "the server block listens on port %d already: remove this listen", at.port)
	default:
		c.add(d, "listen %s has the address and port of line %d: remove one of them", d.words[1], line)
	}
}

// reserved rejects the addresses that other containers of the pod use, and reports whether this is one.
func (c *conflicts) reserved(d directive, at socket) bool {
	switch {
	case c.Judged && at.port == JudgePort:
		c.add(d, "the container that counts requests listens on port %d: use another port, or remove spec.rollout.canary.maxErrorRatio", at.port)
	case c.Monitoring && at.port == ExporterPort:
		c.add(d, "the metrics exporter in the pod listens on port %d: use another port, or disable spec.monitoring", at.port)
	case c.Monitoring && at == socket{address: "127.0.0.1", port: StatusPort}:
		c.add(d, "the metrics exporter reads the status of nginx from %s: use another port, or disable spec.monitoring", d.words[1])
	default:
		return false
	}
	return true
}

// ListensOnIPv6 reports whether a text makes the server that includes it listen on a
// TCP port of all IPv6 addresses.
func ListensOnIPv6(text string, port int) bool {
	all, _, _ := parse(text) // nginx reports errors
	return slices.ContainsFunc(all, func(d directive) bool {
		return d.block == 0 && d.name() == "listen" && len(d.words) > 1 &&
			socketOf(d.words[1]) == socket{address: "::", port: port} && !slices.Contains(d.words, "quic")
	})
}

// socketOf parses an address as nginx does (ngx_parse_inet_url). A range of ports
// and a UNIX socket are not known.
func socketOf(text string) socket {
	var host, port string
	var found bool
	if end := strings.IndexByte(text, ']'); strings.HasPrefix(text, "[") && end > 0 {
		host, port = text[1:end], text[end+1:]
		port, found = strings.CutPrefix(port, ":")
	} else {
		if host, port, found = strings.Cut(text, ":"); !found && digits(text) {
			host, port, found = "*", text, true
		}
	}
	s := socket{port: HTTPPort}
	if found {
		s.port = 0
		if n, err := strconv.Atoi(port); err == nil && digits(port) {
			s.port = n
		}
	}
	if host == "*" {
		s.address = anyAddress
	} else if address, err := netip.ParseAddr(host); err == nil {
		s.address = address.String()
	}
	return s
}

func digits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// include rejects files of Folder: they are this text, the server block that
// includes it, or do not exist.
func (c *conflicts) include(d directive) {
	pattern := d.words[1]
	if !path.IsAbs(pattern) {
		if !c.Known {
			return
		}
		pattern = prefix + "/" + pattern
	}
	pattern = path.Clean(pattern)
	own := path.Dir(pattern) == Folder
	if strings.ContainsAny(pattern, "*?[") {
		// A pattern that no file matches is not an error.
		own = slices.ContainsFunc([]string{ServerFile, SnippetFile, HTTPFile}, func(file string) bool {
			matches, err := path.Match(strings.ReplaceAll(pattern, "[!", "[^"), Folder+"/"+file)
			return err == nil && matches
		})
	}
	if own {
		c.add(d, "include %s is not possible, because %s contains only this configuration and the server block that includes it: mount the files in another folder, and include them from there", d.words[1], Folder)
	}
}

// withVariables returns the arguments of a directive in which nginx replaces
// variables, as far as they are known.
func withVariables(words []string) []string {
	switch words[0] {
	case "return", "proxy_pass", "root", "alias", "try_files":
		return words[1:]
	case "set", "add_header", "add_trailer", "proxy_set_header", "fastcgi_param", "rewrite":
		return words[min(2, len(words)):min(3, len(words))]
	case "error_page":
		return words[len(words)-1:]
	}
	return nil
}

// variables rejects variables that nginx cannot read (ngx_http_script_compile).
func (c *conflicts) variables(d directive) {
	for _, value := range withVariables(d.words) {
		_, rest, found := strings.Cut(value, "$")
		for found {
			name, braced := strings.CutPrefix(rest, "{")
			end := strings.IndexFunc(name, func(r rune) bool {
				return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
			})
			if end < 0 {
				end = len(name)
			}
			switch {
			case braced && !strings.HasPrefix(name[end:], "}"):
				c.add(d, "the variable ${%s in %q has no closing brace: write ${%[1]s}", name[:end], d.name())
				return
			case end == 0:
				c.add(d, "a dollar sign in %q has no variable: write the name of a variable behind it, or remove it", d.name())
				return
			}
			_, rest, found = strings.Cut(name, "$")
		}
	}
}
