package textdiff

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHunks(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to string
		want     []string // the lines of each hunk
	}{
		"equal":                  {"abc", "abc", nil},
		"empty":                  {"", "", nil},
		"inserted":               {"abcdef", "abcxdef", []string{" c+x d"}},
		"deleted":                {"abcdef", "abdef", []string{" b-c d"}},
		"replaced":               {"abcdef", "abxyef", []string{" b-c-d+x+y e"}},
		"at both ends":           {"abcdef", "xbcdey", []string{"-a+x b", " e-f+y"}},
		"close to each other":    {"abcdef", "axcdyf", []string{" a-b+x c d-e+y f"}},
		"everything":             {"ab", "xy", []string{"-a-b+x+y"}},
		"the longest equal part": {"abxabcd", "abcd", []string{"-a-b-x a"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, h := range Hunks(strings.Split(tc.from, ""), strings.Split(tc.to, ""), 1) {
				got = append(got, strings.Join(h.Lines, ""))
				if removed := strings.Count(got[len(got)-1], "-"); h.From.End-h.From.Start-removed != strings.Count(got[len(got)-1], " ") {
					t.Errorf("%+v has other lines: %q", h.From, got)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSimilar(t *testing.T) {
	for to, want := range map[string]bool{"abcd": true, "abcx": true, "abxy": false, "": false} {
		if got := Similar(strings.Split("abcd", ""), strings.Split(to, "")); got != want {
			t.Errorf("abcd and %s: got %v", to, got)
		}
	}
}
