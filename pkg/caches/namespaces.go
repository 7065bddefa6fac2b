package caches

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/platform-operator/platform-operator/pkg/telemetry"
)

// probeEvery is how often a skipped namespace is checked again. Tests change
// it.
var probeEvery = time.Minute

// namespaces skips the watched namespaces that the operator has no permission
// to read, until it has. With watchNamespaces, the permissions of the operator
// are bound in each namespace and are deleted with it. A cache that waits for
// the lists of such a namespace never syncs, and the operator would not start
// for any namespace.
//
// A namespace is skipped if listing is forbidden for every one of the
// operator's own kinds. If it is forbidden only for some types, a permission is
// missing, which remains an error.
type namespaces struct {
	probe func(ctx context.Context, namespace string) (readable bool, err error)
	every time.Duration

	mu      sync.Mutex
	without map[string]chan struct{} // closed when the namespace can be read
}

// unreadableError is the error of a request to a skipped namespace.
type unreadableError struct {
	namespace string
	again     <-chan struct{}
}

func (e *unreadableError) Error() string {
	return fmt.Sprintf("namespace %q is left out because the operator may not list its objects there", e.namespace)
}

// newNamespaces changes o so that unreadable namespaces are skipped.
func newNamespaces(cfg *rest.Config, o *cache.Options) (*namespaces, error) {
	c, err := client.New(cfg, client.Options{Scheme: o.Scheme, Mapper: o.Mapper, HTTPClient: o.HTTPClient})
	if err != nil {
		return nil, fmt.Errorf("making the client that tries namespaces: %w", err)
	}
	n := &namespaces{every: probeEvery, without: map[string]chan struct{}{}, probe: func(ctx context.Context, namespace string) (bool, error) {
		return mayRead(ctx, c, o.Scheme, namespace)
	}}
	wrapped := *o.HTTPClient
	wrapped.Transport = n.wrap(wrapped.Transport)
	o.HTTPClient = &wrapped
	o.NewInformer = func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
		return toolscache.NewSharedIndexInformer(patient{toolscache.ToListerWatcherWithContext(lw)}, obj, resync, by)
	}
	return n, nil
}

// mayRead reports whether any of the operator's own kinds can be listed in the
// namespace.
func mayRead(ctx context.Context, c client.Reader, scheme *runtime.Scheme, namespace string) (bool, error) {
	forbidden := false
	for _, k := range ownKinds(scheme) {
		gvk, err := apiutil.GVKForObject(k, scheme)
		if err != nil {
			return false, err
		}
		l := &metav1.PartialObjectMetadataList{}
		l.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err = c.List(ctx, l, client.InNamespace(namespace), client.Limit(1))
		switch {
		case err == nil:
			return true, nil
		case apierrors.IsForbidden(err):
			forbidden = true
		case !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err):
			return false, fmt.Errorf("trying namespace %q: %w", namespace, err)
		}
	}
	return !forbidden, nil
}

// wrap returns a transport that does not send requests to skipped namespaces,
// and that skips a namespace after a response with status 403, if mayRead
// confirms it.
func (n *namespaces) wrap(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		_, rest, ok := strings.Cut(r.URL.Path, "/namespaces/")
		namespace, _, ok2 := strings.Cut(rest, "/")
		if !ok || !ok2 || r.Method != http.MethodGet {
			return next.RoundTrip(r)
		}
		if again := n.leftOut(namespace); again != nil {
			return nil, &unreadableError{namespace, again}
		}
		res, err := next.RoundTrip(r)
		if err != nil || res.StatusCode != http.StatusForbidden {
			return res, err
		}
		readable, err := n.probe(r.Context(), namespace)
		if readable || err != nil {
			return res, nil //nolint:nilerr // the refusal is the answer, and is asked for again
		}
		_ = res.Body.Close()
		return nil, &unreadableError{namespace, n.leaveOut(r.Context(), namespace)}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends the request.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (n *namespaces) leftOut(namespace string) chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.without[namespace]
}

func (n *namespaces) leaveOut(ctx context.Context, namespace string) chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.without[namespace] == nil {
		n.without[namespace] = make(chan struct{})
		telemetry.SetUnreadable(namespace, true)
		log.FromContext(ctx).Info("The operator may not list its objects in a namespace of watchNamespaces and leaves the namespace out. Create the namespace and the RoleBinding, or remove it from watchNamespaces. It is tried again.",
			"namespace", namespace, "every", n.every.String())
	}
	return n.without[namespace]
}

// Start checks the skipped namespaces until the context ends.
func (n *namespaces) Start(ctx context.Context) {
	tick := time.NewTicker(n.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		n.mu.Lock()
		all := slices.Collect(maps.Keys(n.without))
		n.mu.Unlock()
		for _, namespace := range all {
			if readable, err := n.probe(ctx, namespace); err != nil || !readable {
				continue
			}
			n.mu.Lock()
			close(n.without[namespace])
			delete(n.without, namespace)
			n.mu.Unlock()
			telemetry.SetUnreadable(namespace, false)
			log.FromContext(ctx).Info("The operator may list its objects in the namespace and no longer leaves it out.", "namespace", namespace)
		}
	}
}

// patient is a ListerWatcher for which a skipped namespace is empty until it is
// readable, when it is listed again.
type patient struct {
	toolscache.ListerWatcherWithContext
}

// List implements ListerWatcher.
func (p patient) List(o metav1.ListOptions) (runtime.Object, error) {
	return p.ListWithContext(context.Background(), o)
}

// Watch implements ListerWatcher.
func (p patient) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return p.WatchWithContext(context.Background(), o)
}

// ListWithContext returns an empty list for a skipped namespace.
func (p patient) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	l, err := p.ListerWatcherWithContext.ListWithContext(ctx, o)
	if left := (*unreadableError)(nil); errors.As(err, &left) {
		return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "0"}}, nil
	}
	return l, err
}

// WatchWithContext returns, for a skipped namespace, a watch that expires when
// the namespace is readable, so that it is listed again.
func (p patient) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := p.ListerWatcherWithContext.WatchWithContext(ctx, o)
	left := (*unreadableError)(nil)
	if !errors.As(err, &left) || o.SendInitialEvents != nil { // a list follows
		return w, err
	}
	events := make(chan watch.Event)
	silent := watch.NewProxyWatcher(events)
	go func() {
		select {
		case <-left.again:
		case <-ctx.Done():
		case <-silent.StopChan():
			return
		}
		expired := apierrors.NewResourceExpired("the namespace can be read").Status()
		select {
		case events <- watch.Event{Type: watch.Error, Object: &expired}:
		case <-silent.StopChan():
		}
	}()
	return silent, nil
}
