// Package nginxconf parses configuration of nginx, as far as admission and the
// controller need to understand it.
package nginxconf

import (
	"fmt"
	"strings"
	"unicode"
)

// luaBlock ends the names of directives that contain Lua.
const luaBlock = "_by_lua_block"

// outsideHTTP reports whether nginx accepts a directive only outside of the http block.
func outsideHTTP(directive string) bool {
	switch directive {
	case "events", "http", "mail", "stream", "user", "daemon", "env", "load_module",
		"lock_file", "master_process", "pcre_jit", "pid", "thread_pool", "timer_resolution", "worker_connections",
		"worker_cpu_affinity", "worker_priority", "worker_processes", "worker_rlimit_core", "worker_rlimit_nofile",
		"worker_shutdown_timeout", "working_directory", "accept_mutex", "multi_accept":
		return true
	}
	return false
}

// inHTTPBlock reports whether nginx accepts a directive only in the http block.
func inHTTPBlock(directive string) bool {
	switch directive {
	case "server", "upstream", "geo", "map", "split_clients", "log_format", "limit_conn_zone", "limit_req_zone",
		"proxy_cache_path", "fastcgi_cache_path", "uwsgi_cache_path", "scgi_cache_path", "map_hash_bucket_size",
		"map_hash_max_size", "server_names_hash_bucket_size", "server_names_hash_max_size",
		"variables_hash_bucket_size", "variables_hash_max_size":
		return true
	}
	return false
}

// inServerBlock reports whether nginx accepts a directive in a server block, and not in the
// http block.
func inServerBlock(directive string) bool {
	switch directive {
	case "location", "listen", "server_name", "try_files", "return", "rewrite", "set", "if", "break", "alias", "internal",
		"proxy_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "grpc_pass", "stub_status":
		return true
	}
	return false
}

const ownServers = "%q is not possible: the operator writes the server block; to use others, remove spec.config, and mount files for the http block at " + Folder

// ServerBlock returns why nginx would reject text as the content of a server block, as
// far as it does not depend on the modules.
func ServerBlock(text string) error {
	return checkNames(text, func(name string) error {
		switch {
		case name == "server":
			return fmt.Errorf(ownServers, name)
		case inHTTPBlock(name):
			return fmt.Errorf("%q is not allowed in a server block: put it into spec.config.http", name)
		case outsideHTTP(name):
			return fmt.Errorf("%q is not allowed in a server block", name)
		}
		return nil
	})
}

// HTTPBlock returns why nginx would reject text as a part of the http block, as far as it
// does not depend on the modules, or why the configuration of the operator excludes it.
func HTTPBlock(text string) error {
	return checkNames(text, func(name string) error {
		switch {
		case name == "server":
			return fmt.Errorf(ownServers, name)
		case name == "add_header":
			return fmt.Errorf("%q has no effect here, because the server block sets headers, too: put it into the server block, spec.config.inline", name)
		case inServerBlock(name):
			return fmt.Errorf("%q is not allowed in the http block: put it into the server block, spec.config.inline", name)
		case outsideHTTP(name):
			return fmt.Errorf("%q is not allowed in the http block", name)
		}
		return nil
	})
}

func checkNames(text string, check func(name string) error) error {
	names, err := Directives(text)
	for _, name := range names {
		if err := check(name); err != nil {
			return err
		}
		if strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII || unicode.IsControl(r) }) {
			return fmt.Errorf("%q is not the name of a directive", name)
		}
	}
	return err
}

// directive is a directive, or the part of one that was read before an error.
type directive struct {
	line  int
	rest  int      // the bytes of the text from its beginning on
	block int      // the block that contains it; 0 is the text itself
	words []string // without quotes and escapes
	opens bool     // a block
}

func (d directive) name() string { return d.words[0] }

// Directives parses text as nginx parses an included file, and returns the
// names of the directives at the top level of the text. The error describes why
// nginx would reject the text regardless of what the directives mean; the names
// before the error are returned nevertheless. Lua blocks have a syntax of their
// own: the text is not read any further than the first of them.
func Directives(text string) (names []string, err error) {
	all, _, err := parse(text)
	for _, d := range all {
		if d.block == 0 {
			names = append(names, d.name())
		}
	}
	return names, err
}

// WithHeader returns the content of a server block with a directive before the first
// add_header of each block in it: nginx does not inherit the headers of the server there. The
// lines keep their numbers.
func WithHeader(text, directive string) string {
	all, _, _ := parse(text) // nginx reports errors
	var b strings.Builder
	written, has := 0, map[int]bool{0: true}
	for _, d := range all {
		if d.name() != "add_header" || has[d.block] {
			continue
		}
		has[d.block] = true
		begin := len(text) - d.rest
		b.WriteString(text[written:begin] + directive + " ")
		written = begin
	}
	return b.String() + text[written:]
}

// parse returns the directives in the order of the text, and whether the whole
// text was read.
func parse(text string) (all []directive, complete bool, err error) {
	p := parser{rest: text, line: 1, blocks: []int{0}}
	for p.skipSpace(); p.rest != ""; p.skipSpace() {
		lua := false
		switch p.rest[0] {
		case ';', '{', '}':
			lua, err = p.punctuation()
		default:
			err = p.word()
		}
		if lua || err != nil {
			return p.directives, false, err
		}
	}
	switch {
	case p.within:
		err = p.unexpected(`end, expecting ";"`)
	case len(p.blocks) > 1:
		err = p.unexpected(`end, expecting "}"`)
	}
	return p.directives, err == nil, err
}

// parser reads words and punctuation as nginx's ngx_conf_read_token does.
type parser struct {
	rest       string // the text that has not been read
	line       int    // the line in which it begins
	directives []directive
	within     bool  // the last directive has not ended
	blocks     []int // those that are open
	last       int   // the block that was opened last
}

func (p *parser) unexpected(what string) error {
	return fmt.Errorf("line %d: unexpected %s", p.line, what)
}

// next reads one byte.
func (p *parser) next() byte {
	c := p.rest[0]
	p.rest = p.rest[1:]
	if c == '\n' {
		p.line++
	}
	return c
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// skipSpace reads white space and comments.
func (p *parser) skipSpace() {
	for comment := false; p.rest != ""; p.next() {
		switch c := p.rest[0]; {
		case c == '\n':
			comment = false
		case c == '#':
			comment = true
		case !comment && !isSpace(c):
			return
		}
	}
}

// punctuation reads the end of a directive, or the beginning or the end of a block.
// lua reports that a block of Lua begins.
func (p *parser) punctuation() (lua bool, err error) {
	c := p.rest[0]
	if p.within == (c == '}') || c == '}' && len(p.blocks) == 1 {
		return false, p.unexpected(fmt.Sprintf("%q", c))
	}
	p.next()
	p.within = false
	switch c {
	case '{':
		d := &p.directives[len(p.directives)-1]
		d.opens = true
		p.last++
		p.blocks = append(p.blocks, p.last)
		return strings.HasSuffix(d.name(), luaBlock), nil
	case '}':
		p.blocks = p.blocks[:len(p.blocks)-1]
	}
	return false, nil
}

// word reads a word, and adds it to the directive.
func (p *parser) word() error {
	line, rest := p.line, len(p.rest)
	quote := p.rest[0]
	if quote != '"' && quote != '\'' {
		word, ok := p.unquoted()
		if !ok {
			return p.unexpected(`end, expecting ";"`)
		}
		p.add(word, line, rest)
		return nil
	}
	p.next()
	word, ok := p.quoted(quote)
	if !ok {
		return p.unexpected(fmt.Sprintf("end, expecting a closing %c", quote))
	}
	p.add(word, line, rest)
	if p.rest != "" && !isSpace(p.rest[0]) && !strings.ContainsRune(";{)", rune(p.rest[0])) {
		return p.unexpected(fmt.Sprintf("%q after a closing quote", p.rest[0]))
	}
	return nil
}

// add adds a word to the directive, or begins one.
func (p *parser) add(word string, line, rest int) {
	if !p.within {
		p.directives = append(p.directives, directive{line: line, rest: rest, block: p.blocks[len(p.blocks)-1]})
		p.within = true
	}
	d := &p.directives[len(p.directives)-1]
	d.words = append(d.words, word)
}

// quoted reads the rest of a word in quotes. ok is false if it does not end.
func (p *parser) quoted(quote byte) (word string, ok bool) {
	var b strings.Builder
	for p.rest != "" {
		c := p.next()
		switch {
		case c == quote:
			return b.String(), true
		case c != '\\':
			b.WriteByte(c)
		case p.rest != "":
			b.WriteString(unescape(p.next()))
		}
	}
	return "", false
}

// unquoted reads a word without quotes, in which ${name} may occur. ok is false if it
// does not end.
func (p *parser) unquoted() (word string, ok bool) {
	var b strings.Builder
	variable := false
	for p.rest != "" {
		c := p.rest[0]
		if isSpace(c) || c == ';' || c == '{' && !variable {
			return b.String(), true
		}
		p.next()
		variable = c == '$' || c == '{'
		switch {
		case c != '\\':
			b.WriteByte(c)
		case p.rest != "":
			b.WriteString(unescape(p.next()))
		}
	}
	return "", false
}

// unescape returns the characters for an escaped one. nginx keeps the backslash
// unless it is one of its own escapes.
func unescape(c byte) string {
	switch c {
	case '"', '\'', '\\':
		return string(c)
	case 't':
		return "\t"
	case 'r':
		return "\r"
	case 'n':
		return "\n"
	}
	return "\\" + string([]byte{c})
}
