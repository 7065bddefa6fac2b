package nginxconf

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithHeader(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"none":              {"", ""},
		"of the server":     {"add_header A b; location / { return 204; }", "add_header A b; location / { return 204; }"},
		"of locations":      {"location / {\n  add_header A b;\n  add_header C d;\n}\nlocation /a { add_header A b; }", "location / {\n  H; add_header A b;\n  add_header C d;\n}\nlocation /a { H; add_header A b; }"},
		"of a block within": {"location / { if ($a) { 'add_header' A b; } location /a {} add_header C d; }", "location / { if ($a) { H; 'add_header' A b; } location /a {} H; add_header C d; }"},
		"a comment, a text": {"# add_header A b;\nlocation / { return 200 'add_header A b;'; }", "# add_header A b;\nlocation / { return 200 'add_header A b;'; }"},
		"before an error":   {"location / { add_header A ü; }\n}", "location / { H; add_header A ü; }\n}"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, WithHeader(tc.text, "H;")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDirectives(t *testing.T) {
	for name, tc := range map[string]struct {
		text, want, err string
	}{
		"none":                      {"", "", ""},
		"comment":                   {"# root /srv;\n", "", ""},
		"comment at the end":        {"# root", "", ""},
		"two on a line":             {"root /srv; index a;", "root index", ""},
		"over lines":                {"root\n\t/srv\r\n;index a;", "root index", ""},
		"a block's own are not":     {"location / { root /srv; if ($x) { index a; } }", "location", ""},
		"after a block":             {"location / {}\nroot /srv;", "location root", ""},
		"word before a brace":       {"location /{root /srv;}index a;", "location index", ""},
		"variable in braces":        {"set $x ${host}; root /srv;", "set root", ""},
		"variable within a word":    {"set $x a${host}b; root /srv;", "set root", ""},
		"variable in a quote":       {`set $x "${host};"; root /srv;`, "set root", ""},
		"quoted brace":              {`if ($uri ~ "^/x{2}") { return 404; } root /srv;`, "if root", ""},
		"brace after a quote":       {`location "/x"{} root /srv;`, "location root", ""},
		"quoted semicolon":          {"add_header X 'a; root /srv'; index a;", "add_header index", ""},
		"escaped quote":             {`add_header X "a\"; root /srv"; index a;`, "add_header index", ""},
		"escaped semicolon":         {`set $x a\;root; index a;`, "set index", ""},
		"number sign within a word": {"set $x a#b; root /srv;", "set root", ""},
		"quote within a word":       {"set $x it's; root /srv;", "set root", ""},
		"argument of that name":     {"set root index;", "set", ""},
		"quoted name":               {`"root" /srv;`, "root", ""},

		"no semicolon":            {"root /srv", "root", `line 1: unexpected end, expecting ";"`},
		"no semicolon in a block": {"location / {\n  root /srv\n}", "location", `line 3: unexpected '}'`},
		"block not closed":        {"location / {\n", "location", `line 2: unexpected end, expecting "}"`},
		"quote not closed":        {"set $x 'a;\n", "set", `line 2: unexpected end, expecting a closing '`},
		"closes too much":         {"location / {}\n}", "location", `line 2: unexpected '}'`},
		"two semicolons":          {"root /srv;;", "root", `line 1: unexpected ';'`},
		"block without a name":    {"{}", "", `line 1: unexpected '{'`},
		"word after a quote":      {`set $x "a"b;`, "set", `line 1: unexpected 'b' after a closing quote`},
		"only a backslash":        {`\`, "", `line 1: unexpected end, expecting ";"`},
	} {
		t.Run(name, func(t *testing.T) {
			names, err := Directives(tc.text)
			if diff := cmp.Diff(tc.want, strings.Join(names, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			said := ""
			if err != nil {
				said = err.Error()
			}
			if diff := cmp.Diff(tc.err, said); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
