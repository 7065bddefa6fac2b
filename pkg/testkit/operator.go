package testkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/operator"
	"github.com/platform-operator/platform-operator/pkg/telemetry"
)

// Subject is what is tested: the controllers of one kind or of several.
type Subject struct {
	// Children are empty objects of every type that the controllers create.
	Children []client.Object
	// Kinds are empty objects of the kinds that the controllers reconcile.
	Kinds []telemetry.Object
	// Setup adds the controllers to a manager.
	Setup func(manager.Manager, *apply.Applier) error
	// Messages are the names and groups of the kinds whose messages (package message)
	// may be in a status. If it is empty, any message may.
	Messages []string
}

// SubjectOf returns the controller of a kind, with two workers. kind is called for each
// operator that is started, because a kind may have state.
func SubjectOf(kind func() converge.AnyKind) Subject {
	k := kind()
	return Subject{
		Children: k.Watched(),
		Kinds:    []telemetry.Object{k.New()},
		Setup: func(mgr manager.Manager, a *apply.Applier) error {
			return converge.Register(mgr, kind(), a, converge.Options{Workers: 2})
		},
		Messages: k.MessageKinds(),
	}
}

// Operator is an operator that runs in the process of the test.
type Operator struct {
	// Applier writes the children.
	Applier *apply.Applier

	subject Subject
	scheme  *runtime.Scheme
	cache   client.Reader
	stop    context.CancelFunc
	done    chan error
}

// Run starts an operator for some namespaces, or for all if none is given, and
// returns when its caches are synced. wrap, which may be nil, can observe and
// change every request.
func (e *Env) Run(ctx context.Context, s Subject, wrap func(*rest.Config), namespaces ...string) (*Operator, error) {
	cfg := rest.CopyConfig(e.Operator)
	if wrap != nil {
		wrap(cfg)
	}
	mgr, err := operator.New(cfg, e.Scheme, operator.Options{
		Watch: namespaces, ReadYourWrites: true, Children: s.Children, MetricsAddress: "0", ProbeAddress: "0", SkipNameValidation: true,
	})
	if err != nil {
		return nil, err
	}
	// Like the real operator, so that the metrics are known to cost no requests.
	metrics := telemetry.New(telemetry.Options{Active: mgr.Elected()})
	if err := metrics.Objects.Watch(mgr.GetCache(), e.Scheme, s.Kinds); err != nil {
		return nil, err
	}
	applier := apply.NewApplier(mgr.GetClient(), mgr.GetAPIReader(), metrics.Child)
	if err := s.Setup(mgr, applier); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	o := &Operator{
		Applier: applier, subject: s, scheme: e.Scheme, cache: mgr.GetCache(),
		stop: cancel, done: make(chan error, 1),
	}
	e.running.Store(o, namespaces)
	go func() {
		o.done <- mgr.Start(ctx)
		e.running.Delete(o)
		close(o.done) // so that stopping it again has no effect
	}()
	select {
	case <-mgr.Elected():
		return o, nil
	case err := <-o.done:
		cancel()
		return nil, fmt.Errorf("starting the operator: %w", err)
	}
}

// Received reports whether the latest event of an object of a kind, or of a child, has
// reached the operator. An operator that has not received one yet only seems to be
// idle. live is what the API server holds, or has only a namespace and a name if the
// object does not exist.
func (o *Operator) Received(ctx context.Context, gvk schema.GroupVersionKind, live client.Object) (bool, error) {
	made, err := o.scheme.New(gvk)
	if err != nil {
		return false, fmt.Errorf("making an object: %w", err)
	}
	cached, ok := made.(client.Object)
	if !ok {
		return false, fmt.Errorf("a %s has no metadata", gvk.Kind)
	}
	err = o.cache.Get(ctx, client.ObjectKeyFromObject(live), cached)
	if _, starting := errors.AsType[*cache.ErrResourceNotCached](err); starting {
		return false, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading %s %q from the cache: %w", gvk.Kind, live.GetName(), err)
	}
	if err == nil || live.GetResourceVersion() == "" {
		return cached.GetResourceVersion() == live.GetResourceVersion(), nil
	}
	// The cache holds no child without the operator's label.
	isChild := !slices.ContainsFunc(o.subject.Kinds, func(k telemetry.Object) bool {
		of, err := apiutil.GVKForObject(k, o.scheme)
		return err == nil && of == gvk
	})
	return isChild && !naming.IsLabelled(live), nil
}

// Cancel stops the operator without waiting.
func (o *Operator) Cancel() { o.stop() }

// Stop stops the operator and waits until it has ended.
func (o *Operator) Stop() error {
	o.stop()
	select {
	case err := <-o.done:
		return err
	case <-time.After(patience):
		return errors.New("the operator did not stop")
	}
}

// Run starts a manager, which ends with the test.
func Run(t *testing.T, mgr manager.Manager) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// FreeAddress returns an address of this machine at which no process listens.
func FreeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
