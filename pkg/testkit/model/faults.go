package model

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/platform-operator/platform-operator/pkg/testkit/wire"
)

// faultOps returns the operations that disturb the operator.
func faultOps() []Op {
	all := []Op{
		ofField(fieldHistory, other("restart-operator", nil, func(ctx context.Context, w *World) error {
			w.kill()
			return w.start(ctx)
		})),
		disturb("stale-object", stale(func(k *Kind) []string { return []string{k.Name + "s"} })),
		disturb("stale-workload", stale(func(k *Kind) []string {
			if k.hasDeployment() {
				return []string{"deployments"}
			}
			return []string{"pods"}
		})),
		disturb("stale-children", stale(func(*Kind) []string {
			var all []string
			for _, gvk := range childKinds {
				resource, _ := meta.UnsafeGuessKindToResource(gvk)
				all = append(all, resource.Resource)
			}
			return all
		})),
		disturb("stale-all", stale(func(*Kind) []string { return []string{""} })),
		disturb("break-watches", func(_ context.Context, w *World) error {
			w.wire.BreakWatches()
			return nil
		}),
		early(other("clock-back", nil, func(_ context.Context, w *World) error { w.skew.Add(-int64(24 * time.Hour)); return nil })),
		early(other("clock-forth", nil, func(_ context.Context, w *World) error { w.skew.Add(int64(24 * time.Hour)); return nil })),
	}
	for n := 1; n <= 4; n++ {
		all = append(all,
			disturb(fmt.Sprintf("crash-before-%d", n), armed(wire.Fault{Kind: wire.CrashBefore, At: n})),
			disturb(fmt.Sprintf("crash-after-%d", n), armed(wire.Fault{Kind: wire.CrashAfter, At: n})))
	}
	for n := 1; n <= 2; n++ {
		for _, code := range []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError} {
			all = append(all, disturb(fmt.Sprintf("refuse-%d-%d", code, n), armed(wire.Fault{Kind: wire.Refuse, At: n, Code: code})))
		}
		all = append(all, disturb(fmt.Sprintf("lose-answer-%d", n), armed(wire.Fault{Kind: wire.Lose, At: n})))
	}
	return all
}

// disturb returns an operation that affects the next one, which follows immediately.
func disturb(name string, do func(context.Context, *World) error) Op {
	return Op{Name: name, Fault: true, do: func(ctx context.Context, w *World) error {
		if w.wire.IsDead() {
			return errSkip
		}
		return do(ctx, w)
	}}
}

func armed(f wire.Fault) func(context.Context, *World) error {
	return func(_ context.Context, w *World) error {
		w.wire.Arm(f)
		return nil
	}
}

// stale delays the events of some resources until the operator has had time to react
// to everything else.
func stale(resources func(*Kind) []string) func(context.Context, *World) error {
	return func(_ context.Context, w *World) error {
		frozen := w.wire
		for _, resource := range resources(w.kind) {
			frozen.Freeze(resource)
		}
		w.afterOps = append(w.afterOps, func(ctx context.Context) error {
			err := w.idle(ctx)
			if err == nil {
				_, err = w.cluster.Step(ctx)
			}
			if err == nil {
				err = w.idle(ctx)
			}
			frozen.Thaw()
			return err
		})
		return nil
	}
}
