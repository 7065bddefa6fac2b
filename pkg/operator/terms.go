package operator

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/platform-operator/platform-operator/pkg/telemetry"
)

// Servers returns the options of the manager that serves admission, metrics and health.
// It needs neither a Lease nor caches of the kinds: nothing that happens to those keeps
// it from answering.
func (o Options) Servers() Options {
	o.LeaderElection, o.Kinds, o.Children, o.serversOnly = false, nil, nil, true
	return o
}

// Controllers returns the options of the manager that reconciles kinds. It serves
// nothing, so that it can be replaced in a running process.
func (o Options) Controllers(kinds []telemetry.Object) Options {
	o.Kinds = kinds
	o.MetricsAddress, o.ProbeAddress, o.ProfileAddress = "0", "0", ""
	o.Admission, o.SkipNameValidation = nil, true
	return o
}

// firstPause and longestPause limit how long Terms waits for the next term.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// Terms runs term after term until ctx ends. A term ends early when it loses the Lease,
// when the API server cannot be reached at its start, or when a kind is served that was
// missing. The pause after an error doubles until a term lasts.
func Terms(ctx context.Context, term func(context.Context) error) error {
	logger := log.FromContext(ctx).WithName("terms")
	pause := firstPause
	for {
		began := time.Now()
		err := term(ctx)
		if ctx.Err() != nil {
			return err
		}
		if time.Since(began) > longestPause {
			pause = firstPause
		}
		if err != nil {
			logger.Error(err, "The controllers of this replica stopped. They start again, and admission is served meanwhile", "after", pause.String())
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(pause):
			}
			pause = min(2*pause, longestPause)
		}
	}
}

// Served returns the kinds that the API server serves. The others lack their CRDs.
func Served(cfg *rest.Config, scheme *runtime.Scheme, kinds []telemetry.Object) (served, missing []telemetry.Object, err error) {
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(cfg, c)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client: %w", err)
	}
	for _, k := range kinds {
		gvk, err := apiutil.GVKForObject(k, scheme)
		if err != nil {
			return nil, nil, fmt.Errorf("looking up the kind of %T: %w", k, err)
		}
		switch _, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version); {
		case meta.IsNoMatchError(err):
			missing = append(missing, k)
		case err != nil:
			return nil, nil, fmt.Errorf("looking up whether %s is served: %w", gvk.Kind, err)
		default:
			served = append(served, k)
		}
	}
	return served, missing, nil
}

// awaitEvery is how often it is looked up whether something is available that was missing, at
// the cost of a request or two for each kind, and for each type of children of a kind.
const awaitEvery = 30 * time.Second

// Await returns when one of the functions returns true, or ctx ends.
func Await(ctx context.Context, available ...func() bool) {
	// It ends without an error, or with that of ctx.
	_ = wait.PollUntilContextCancel(ctx, awaitEvery, false, func(context.Context) (bool, error) {
		return slices.ContainsFunc(available, func(is func() bool) bool { return is() }), nil
	})
}

// forever is longer than any outage of the API server: the manager of the servers waits
// for its certificate instead of ending.
const forever = time.Duration(math.MaxInt64)
