// Package nginxconf parses configuration of nginx, as far as admission and the
// controller need to understand it.
package nginxconf

import (
	"fmt"
	"strings"
)

// Directives parses text as nginx parses an included file, and returns the
// names of the directives at the top level of the text. The error describes why
// nginx would reject the text regardless of what the directives mean; the names
// before the error are returned nevertheless. Lua blocks, which have a syntax
// of their own, are not supported.
func Directives(text string) (names []string, err error) {
	// The states are those of nginx's ngx_conf_read_token.
	var (
		words                int // of the current directive
		word                 strings.Builder
		depth                int
		line                 = 1
		between              = true // no word has begun
		comment, escaped     bool
		variable, afterQuote bool
		quote                byte // of the current word; 0 for none
		unexpected           = func(what string) error { return fmt.Errorf("line %d: unexpected %s", line, what) }
		space                = func(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
		endWord              = func() {
			if words == 0 && depth == 0 {
				names = append(names, word.String())
			}
			words++
			word.Reset()
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
			word.WriteByte(c)
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
				return names, unexpected(fmt.Sprintf("%q after a closing quote", c))
			}
		}
		if between {
			switch {
			case space(c):
			case (c == ';' || c == '{') && words == 0, c == '}' && words > 0, c == '}' && depth == 0:
				return names, unexpected(fmt.Sprintf("%q", c))
			case c == ';':
				words = 0
			case c == '{':
				words = 0
				depth++
			case c == '}':
				depth--
			case c == '#':
				comment = true
			default:
				between = false
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
				words = 0
			}
			if c == '{' {
				words = 0
				depth++
			}
		default:
			word.WriteByte(c)
		}
		variable = c == '$'
	}
	switch {
	case quote != 0:
		return names, unexpected(fmt.Sprintf("end, expecting a closing %c", quote))
	case words > 0 || !between:
		return names, unexpected(`end, expecting ";"`)
	case depth > 0:
		return names, unexpected(`end, expecting "}"`)
	}
	return names, nil
}
