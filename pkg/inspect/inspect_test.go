package inspect

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFollow_ShowsOnlyDifferences(t *testing.T) {
	missing := errors.New("does not exist")
	type result struct {
		value string
		err   error
	}
	for name, tc := range map[string]struct {
		reads []result
		want  []string
		err   error
	}{
		"differences":            {[]result{{"a", nil}, {"a", nil}, {"b", nil}, {"b", nil}, {"a", nil}}, []string{"a", "b", "a"}, nil},
		"deleted":                {[]result{{"a", nil}, {"", missing}, {"", missing}, {"a", nil}}, []string{"a", "does not exist", "a"}, nil},
		"missing from the start": {[]result{{"", missing}}, nil, missing},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			changes := make(chan struct{}, len(tc.reads))
			for range tc.reads {
				changes <- struct{}{}
			}
			var got []string
			n := 0
			err := Follow(ctx, changes, func(context.Context) (string, error) {
				if n == len(tc.reads) {
					cancel()
					return "", ctx.Err()
				}
				n++
				return tc.reads[n-1].value, tc.reads[n-1].err
			}, func(s string) error { got = append(got, s); return nil }, func(err error) error { got = append(got, err.Error()); return nil })
			if !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPrinter_Report_Color(t *testing.T) {
	r := Report{Objects: []Object{{Reference: "webserver/a", State: StateStalled}, {Reference: "webserver/longer", State: StateReady}}}
	var plainText, colored strings.Builder
	for b, color := range map[*strings.Builder]bool{&plainText: false, &colored: true} {
		if err := (Printer{Now: time.Now(), Color: color}).Report(b, r, false); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(colored.String(), red+"Stalled"+plain) || !strings.Contains(colored.String(), green+"Ready"+plain) {
		t.Errorf("got %q", colored.String())
	}
	if diff := cmp.Diff(plainText.String(), strings.NewReplacer(red, "", green, "", plain, "").Replace(colored.String())); diff != "" {
		t.Errorf("colours change the columns (-plain +colored):\n%s", diff)
	}
}
