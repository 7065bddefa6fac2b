package configsource

import (
	"errors"
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/pkg/fault"
)

func TestCombinedDigest(t *testing.T) {
	db, mail := Use{Field: "spec.envFrom[0]", Name: "db"}, Use{Field: "spec.pod.volumes[m]", Name: "mail", Optional: true}
	use := func(us ...Use) []Use { return us }
	type digests = map[string]string
	secrets := func(uses []Use, there digests) (string, error) {
		if there == nil {
			return CombinedDigest(uses, nil)
		}
		all := map[string]SecretDigest{}
		for name, d := range there {
			all[name] = SecretDigest{Digest: d}
		}
		return CombinedDigest(uses, all)
	}
	of := func(uses []Use, there digests) string {
		t.Helper()
		d, err := secrets(uses, there)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if got := of(use(db, mail), nil); got != "" {
		t.Errorf("got %q without digests, want none", got)
	}
	if got := of(nil, digests{"db": "1"}); got != "" {
		t.Errorf("none is used: %q", got)
	}
	if got := of(use(mail), digests{}); got != "" {
		t.Errorf("an optional one is missing: %q", got)
	}
	one := of(use(db, mail), digests{"db": "1"})
	for name, tc := range map[string]struct {
		there digests
		same  bool
	}{
		"as before":                  {digests{"db": "1"}, true},
		"one that is not used comes": {digests{"db": "1", "x": "1"}, true},
		"it changes":                 {digests{"db": "2"}, false},
		"the optional one comes":     {digests{"db": "1", "mail": "1"}, false},
	} {
		if got := of(use(db, mail), tc.there); (got == one) != tc.same || got == "" {
			t.Errorf("%s: %q after %q, want the same: %v", name, got, one, tc.same)
		}
	}
	if a, b := of(use(db, db), digests{"db": "1"}), one; a != b {
		t.Errorf("used twice: %q, once: %q", a, b)
	}

	_, err := secrets(use(db, db, mail, Use{Field: "spec.env[A]", Name: "key"}), digests{"mail": "1"})
	v := fault.Classify(err)
	if v.Class != fault.Stall || v.Reason != "ReferenceNotFound" ||
		strings.Count(err.Error(), `Secret "db" (spec.envFrom[0]) does not exist in this namespace. Create it, or refer to another one.`) != 1 || !strings.Contains(err.Error(), `Secret "key" (spec.env[A]) does not exist`) {
		t.Errorf("got %+v of %v", v, err)
	}
}

func TestCombinedDigest_ReportsFailedReads(t *testing.T) {
	refused := errors.New("refused")
	for _, optional := range []bool{false, true} {
		uses := []Use{{Field: "spec.envFrom[0]", Name: "db", Optional: optional}, {Field: "spec.envFrom[1]", Name: "db", Optional: optional}}
		digest, err := CombinedDigest(uses, map[string]SecretDigest{"db": {Err: refused}})
		if digest != "" || !errors.Is(err, refused) || strings.Count(err.Error(), "refused") != 1 {
			t.Errorf("optional %v: got %q, %v", optional, digest, err)
		}
	}
}
