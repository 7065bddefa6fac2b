package operator

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestTerms(t *testing.T) {
	for name, tc := range map[string]struct {
		lasts time.Duration // of each term
		err   error
		want  []time.Duration // when the terms begin
	}{
		"another kind is served":              {3 * time.Second, nil, []time.Duration{0, 3 * time.Second, 6 * time.Second}},
		"the API server is away":              {0, errors.New("refused"), []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}},
		"the Lease was lost after a long one": {time.Minute, errors.New("lost"), []time.Duration{0, 61 * time.Second, 122 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				began := time.Now()
				var got []time.Duration
				err := Terms(ctx, func(context.Context) error {
					got = append(got, time.Since(began))
					if len(got) == len(tc.want) {
						stop()
						return nil
					}
					time.Sleep(tc.lasts)
					return tc.err
				})
				if err != nil || !slices.Equal(got, tc.want) {
					t.Errorf("terms began at %v, want %v; %v", got, tc.want, err)
				}
			})
		})
	}
}

func TestAwait_ReturnsWhenSomethingIsAvailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), 0
		never := func() bool { return false }
		Await(t.Context(), never, func() bool { asked++; return asked == 2 })
		if got := time.Since(began); got != 2*awaitEvery {
			t.Errorf("it took %s, want %s", got, 2*awaitEvery)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*awaitEvery)
		defer cancel()
		Await(ctx, never)
		if ctx.Err() == nil {
			t.Error("it returned although nothing is available")
		}
	})
}
