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

// inOtherContexts reports whether nginx accepts a directive, but not in a server
// block.
func inOtherContexts(directive string) bool {
	switch directive {
	case "events", "http", "mail", "server", "stream", "upstream", "user", "daemon", "env", "load_module",
		"lock_file", "master_process", "pcre_jit", "pid", "thread_pool", "timer_resolution", "worker_connections",
		"worker_cpu_affinity", "worker_priority", "worker_processes", "worker_rlimit_core", "worker_rlimit_nofile",
		"worker_shutdown_timeout", "working_directory", "accept_mutex", "multi_accept", "geo", "map",
		"split_clients", "log_format", "limit_conn_zone", "limit_req_zone", "proxy_cache_path",
		"fastcgi_cache_path", "uwsgi_cache_path", "scgi_cache_path", "map_hash_bucket_size", "map_hash_max_size",
		"server_names_hash_bucket_size", "server_names_hash_max_size", "variables_hash_bucket_size",
		"variables_hash_max_size":
		return true
	}
	return false
}

// ServerBlock returns why nginx would reject text as the content of a server block, as
// far as it does not depend on the modules.
func ServerBlock(text string) error {
	names, err := Directives(text)
	for _, name := range names {
		switch {
		case inOtherContexts(name):
			return fmt.Errorf("%q is not allowed in a server block", name)
		case strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII || unicode.IsControl(r) }):
			return fmt.Errorf("%q is not the name of a directive", name)
		}
	}
	return err
}

// directive is a directive, or the part of one that was read before an error.
type directive struct {
	line  int
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

// parse returns the directives in the order of the text, and whether the whole
// text was read.
func parse(text string) (all []directive, complete bool, err error) {
	// The states are those of nginx's ngx_conf_read_token.
	var (
		within               bool // a directive has begun
		word                 strings.Builder
		blocks               = []int{0} // those that are open
		last                 int        // the block that was opened last
		line                 = 1
		begun                int    // the line in which the word begins
		between              = true // no word has begun
		comment, escaped     bool
		variable, afterQuote bool
		quote                byte // of the current word; 0 for none
		unexpected           = func(what string) error { return fmt.Errorf("line %d: unexpected %s", line, what) }
		space                = func(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
		current              = func() *directive { return &all[len(all)-1] }
		endWord              = func() {
			if !within {
				all = append(all, directive{line: begun, block: blocks[len(blocks)-1]})
				within = true
			}
			current().words = append(current().words, word.String())
			word.Reset()
		}
		open = func() (lua bool) {
			current().opens = true
			within = false
			last++
			blocks = append(blocks, last)
			return strings.HasSuffix(current().name(), luaBlock)
		}
	)
	for i := range len(text) {
		c := text[i]
		if c == '\n' {
			line++
			comment = false
		}
		if comment {
			continue
		}
		if escaped {
			escaped = false
			word.WriteString(unescape(c))
			continue
		}
		if afterQuote {
			switch {
			case space(c):
				between, afterQuote = true, false
				continue
			case c == ';' || c == '{' || c == ')':
				between, afterQuote = true, false
			default:
				return all, false, unexpected(fmt.Sprintf("%q after a closing quote", c))
			}
		}
		if between {
			switch {
			case space(c):
			case (c == ';' || c == '{') && !within, c == '}' && within, c == '}' && len(blocks) == 1:
				return all, false, unexpected(fmt.Sprintf("%q", c))
			case c == ';':
				within = false
			case c == '{':
				if open() {
					return all, false, nil
				}
			case c == '}':
				blocks = blocks[:len(blocks)-1]
			case c == '#':
				comment = true
			default:
				between, begun = false, line
				switch c {
				case '"', '\'':
					quote = c
				case '\\':
					escaped = true
				default:
					variable = c == '$'
					word.WriteByte(c)
				}
			}
			continue
		}
		switch {
		case c == '{' && variable: // ${name}
			word.WriteByte(c)
			continue
		case c == '\\':
			escaped = true
		case quote != 0 && c == quote:
			quote = 0
			afterQuote = true
			endWord()
		case quote == 0 && (space(c) || c == ';' || c == '{'):
			between = true
			endWord()
			if c == ';' {
				within = false
			}
			if c == '{' && open() {
				return all, false, nil
			}
		default:
			word.WriteByte(c)
		}
		variable = c == '$'
	}
	switch {
	case quote != 0:
		return all, false, unexpected(fmt.Sprintf("end, expecting a closing %c", quote))
	case within || !between:
		return all, false, unexpected(`end, expecting ";"`)
	case len(blocks) > 1:
		return all, false, unexpected(`end, expecting "}"`)
	}
	return all, true, nil
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
