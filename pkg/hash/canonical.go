package hash

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Canonical returns the JSON of a value with sorted keys. The result is that of
// encoding a second time what the JSON decodes to, without maps. It avoids that,
// because a spec may contain a large text, and each reconcile hashes it.
func Canonical(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	p := parser{rest: raw}
	n, err := p.value()
	if err != nil {
		return nil, err
	}
	return n.appendTo(make([]byte, 0, len(raw))), nil
}

// node is a JSON value. The text of a scalar is canonical.
type node struct {
	kind     byte // '{', '[', or 0 for a scalar
	text     []byte
	children []node
	// key is the decoded name of a member of an object, and name its canonical text.
	key  string
	name []byte
}

func (n node) appendTo(out []byte) []byte {
	if n.kind == 0 {
		return append(out, n.text...)
	}
	out = append(out, n.kind)
	for i, c := range n.children {
		if i > 0 {
			out = append(out, ',')
		}
		if n.kind == '{' {
			out = append(append(out, c.name...), ':')
		}
		out = c.appendTo(out)
	}
	return append(out, n.kind+2) // the closing bracket
}

// parser parses the output of json.Marshal, which is valid and has no spaces.
type parser struct{ rest []byte }

func (p *parser) value() (n node, err error) {
	switch p.rest[0] {
	case '{', '[':
		return p.container()
	case '"':
		n.text, err = canonicalString(p.take(lengthOfString(p.rest)))
	default:
		end := bytes.IndexAny(p.rest, ",]}")
		if end < 0 {
			end = len(p.rest)
		}
		n.text, err = canonicalLiteral(p.take(end))
	}
	return n, err
}

func (p *parser) container() (n node, err error) {
	n.kind = p.take(1)[0]
	for p.rest[0] != n.kind+2 {
		if p.rest[0] == ',' {
			p.take(1)
		}
		var c node
		var name []byte
		if n.kind == '{' {
			if name, err = canonicalString(p.take(lengthOfString(p.rest))); err != nil {
				return n, err
			}
			p.take(1) // the colon
		}
		if c, err = p.value(); err != nil {
			return n, err
		}
		if c.name = name; name != nil {
			if err := json.Unmarshal(name, &c.key); err != nil {
				return n, err
			}
		}
		n.children = append(n.children, c)
	}
	p.take(1)
	if n.kind == '{' {
		n.sort()
	}
	return n, nil
}

// sort sorts the members of an object. Of those with the same name, the last one
// counts.
func (n *node) sort() {
	slices.SortStableFunc(n.children, func(a, b node) int { return strings.Compare(a.key, b.key) })
	var last []node
	for i, c := range n.children {
		if i+1 == len(n.children) || n.children[i+1].key != c.key {
			last = append(last, c)
		}
	}
	n.children = last
}

func (p *parser) take(n int) []byte {
	taken := p.rest[:n]
	p.rest = p.rest[n:]
	return taken
}

// lengthOfString returns the length of the string that a text begins with,
// including the quotes.
func lengthOfString(text []byte) int {
	for i := 1; ; i++ {
		next := bytes.IndexByte(text[i:], '"')
		escape := bytes.IndexByte(text[i:i+next], '\\')
		if escape < 0 {
			return i + next + 1
		}
		i += escape + 1 // skips the escaped character
	}
}

// canonicalString returns a string as json.Marshal would encode it.
func canonicalString(text []byte) ([]byte, error) {
	if utf8.Valid(text) && hasCanonicalEscapes(text) {
		return text, nil
	}
	return again[string](text)
}

// hasCanonicalEscapes reports whether json.Marshal would escape the same
// characters of a string in the same way.
func hasCanonicalEscapes(text []byte) bool {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return true
		}
		text = text[i:]
		length := 2
		if text[1] == 'u' {
			length = len(`\u0000`)
		}
		if !escapes[string(text[:length])] {
			return false
		}
		text = text[length:]
	}
}

// escapes are the escape sequences that json.Marshal writes for valid text.
var escapes = func() map[string]bool {
	all := map[string]bool{}
	for _, c := range append([]rune(`"\<>&`), 0x2028, 0x2029) {
		all[escaped(c)] = true
	}
	for c := range rune(' ') {
		all[escaped(c)] = true
	}
	return all
}()

func escaped(c rune) string {
	raw, err := json.Marshal(string(c))
	if err != nil {
		panic(err) // a string can be encoded
	}
	return string(raw[1 : len(raw)-1])
}

// canonicalLiteral returns a number, true, false or null as json.Marshal would
// encode it. Numbers are those of JSON, with the precision of a float64.
func canonicalLiteral(text []byte) ([]byte, error) {
	const exact = 15 // so many digits are always exact
	if text[0] >= 'a' || len(text) <= exact && !bytes.ContainsAny(text, ".eE") {
		return text, nil
	}
	return again[float64](text)
}

// again decodes a text and encodes the result.
func again[T any](text []byte) ([]byte, error) {
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}
