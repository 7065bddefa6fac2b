package hash

import "testing"

// The hashes are stored in the cluster: another one for the same value would
// replace pods.
func TestOf_IsStable(t *testing.T) {
	type reordered struct {
		B []string `json:"b,omitempty"`
		A int      `json:"a"`
	}
	for name, tc := range map[string]struct {
		salt string
		v    any
		want string
	}{
		"map":              {"", map[string]any{"a": 1, "b": []string{"x"}}, "1cc2bce844efc207"},
		"order of fields":  {"", reordered{A: 1, B: []string{"x"}}, "1cc2bce844efc207"},
		"omitted field":    {"", reordered{A: 1}, "9c3e82dd6fcae8b1"},
		"salt":             {"WebServer", reordered{A: 1}, "738d7bd17dd7b438"},
		"nil":              {"", nil, "5b9bc4ba528108e4"},
		"quoted like HTML": {"", "<&>", "d1d9e0e4af334cb6"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Of(tc.salt, tc.v)
			if err != nil || got != tc.want {
				t.Errorf("got %s, %v, want %s", got, err, tc.want)
			}
		})
	}
	if _, err := Of("", func() {}); err == nil {
		t.Error("a function has no JSON, and got a hash")
	}
}
