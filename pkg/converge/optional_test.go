package converge

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/platform-operator/platform-operator/pkg/fault"
)

// gateway is a cluster in which HTTPRoutes may become available.
type gateway struct {
	meta.RESTMapper
	cache.Informer

	clock          time.Time
	serves, synced bool
	blocks         chan struct{} // GetInformer blocks until it is closed
	asked          atomic.Int64
	watches        atomic.Int64
	refused        error // of the watch
}

func (g *gateway) RESTMapping(gk schema.GroupKind, v ...string) (*meta.RESTMapping, error) {
	g.asked.Add(1)
	if g.serves {
		return &meta.RESTMapping{}, nil
	}
	return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: v}
}

func (g *gateway) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	if g.blocks != nil {
		<-g.blocks
	}
	return g, nil
}

type gatewayCache struct {
	cache.Cache
	*gateway
}

func (g gatewayCache) GetInformer(ctx context.Context, o client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	return g.gateway.GetInformer(ctx, o, opts...)
}

type gatewayController struct {
	controller.Controller
	*gateway
}

func (g gatewayController) Watch(s source.TypedSource[reconcile.Request]) error {
	return g.gateway.Watch(s)
}

func (g *gateway) HasSynced() bool { return g.synced }

func (g *gateway) Watch(source.TypedSource[reconcile.Request]) error {
	g.watches.Add(1)
	return g.refused
}

const crd = "httproutes.gateway.networking.k8s.io"

func newGateway() (*gateway, *optional) {
	g := &gateway{clock: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}
	return g, &optional{
		mapper: g, cache: gatewayCache{gateway: g}, control: gatewayController{gateway: g}, now: func() time.Time { return g.clock },
		missing: map[string]*missing{"HTTPRoute": {empty: &gatewayv1.HTTPRoute{}, gvk: schema.GroupVersionKind{Group: gatewayv1.GroupName, Version: "v1", Kind: "HTTPRoute"}}},
	}
}

func TestOptional_BecomesAvailable(t *testing.T) {
	g, o := newGateway()
	expect := func(when string, class fault.Class, asked, watches int64, comes time.Duration) {
		t.Helper()
		if got := fault.Classify(o.ensure(t.Context(), "HTTPRoute")).Class; got != class {
			t.Errorf("%s: class %d, want %d", when, got, class)
		}
		if a, w := g.asked.Swap(0), g.watches.Swap(0); a != asked || w != watches {
			t.Errorf("%s: %d requests and %d watches, want %d and %d", when, a, w, asked, watches)
		}
		if class != fault.None && o.comes("HTTPRoute") != comes {
			t.Errorf("%s: it is looked for after %s, want %s", when, o.comes("HTTPRoute"), comes)
		}
		if got := o.lacks(&gatewayv1.HTTPRoute{}); got != (class != fault.None) {
			t.Errorf("%s: lacks it: %v", when, got)
		}
	}
	expect("no CRD", fault.Stall, 0, 0, 0)
	o.define("others.example.com", false)
	expect("another CRD", fault.Stall, 0, 0, 0)
	if !o.define(crd, true) {
		t.Error("the CRD is taken for another")
	}
	expect("a CRD that has always existed", fault.Stall, 1, 0, 0)
	expect("asked a moment ago", fault.Stall, 0, 0, 0)
	if o.served("HTTPRoute") {
		t.Error("it is said to be served")
	}
	o.define(crd, false)
	expect("a new CRD", fault.Wait, 1, 0, askEvery)
	expect("asked a moment ago, for a new CRD", fault.Wait, 0, 0, askEvery)
	g.clock = g.clock.Add(becoming)
	expect("a new CRD that is not served", fault.Stall, 1, 0, 0)

	g.serves = true
	g.clock = g.clock.Add(askEvery)
	g.refused = errors.New("no")
	expect("the watch fails", fault.Retry, 1, 1, askEvery)
	g.refused = nil
	g.clock = g.clock.Add(askEvery)
	expect("served, and not listed", fault.Wait, 1, 1, askEvery)
	if !o.served("HTTPRoute") {
		t.Error("it is said not to be served")
	}
	expect("being listed", fault.Wait, 0, 0, askEvery)
	g.clock = g.clock.Add(becoming)
	expect("the list is refused", fault.Stall, 0, 0, fault.Probe)
	g.synced = true
	expect("listed", fault.None, 0, 0, 0)
	expect("available", fault.None, 0, 0, 0)
}

// Each reconcile of the kind calls it for each of its children.
func TestOptional_DoesNotBlockWhileATypeIsListed(t *testing.T) {
	g, o := newGateway()
	g.serves, g.blocks = true, make(chan struct{})
	o.define(crd, false)
	done := make(chan error)
	go func() { done <- o.ensure(t.Context(), "HTTPRoute") }()
	for g.asked.Load() == 0 {
		select {
		case <-t.Context().Done():
			t.Fatal("the API server was not asked")
		case <-time.After(time.Millisecond):
		}
	}
	others := make(chan error)
	go func() {
		o.lacks(&gatewayv1.HTTPRoute{})
		others <- errors.Join(o.ensure(context.Background(), "Deployment"))
	}()
	select {
	case err := <-others:
		if err != nil {
			t.Error(err)
		}
	case err := <-done:
		t.Errorf("the informer was not waited for: %v", err)
	case <-time.After(10 * time.Second):
		t.Error("an object without HTTPRoutes waits for their informer")
	}
	close(g.blocks)
	if got := fault.Classify(<-done).Class; got != fault.Wait {
		t.Errorf("class %d", got)
	}
}

func TestCheckList(t *testing.T) {
	route := schema.GroupVersionKind{Group: gatewayv1.GroupName, Version: "v1", Kind: "HTTPRoute"}
	own := schema.GroupVersionKind{Group: "my.domain", Version: "v1", Kind: "WebServer"}
	forbidden, broken := apierrors.NewForbidden(schema.GroupResource{}, "", nil), errors.New("no answer")
	for name, tc := range map[string]struct {
		namespaces []string
		refuses    map[string]error // by kind and namespace
		want       error
	}{
		"everywhere":                            {nil, nil, nil},
		"not":                                   {nil, map[string]error{"HTTPRouteList ": broken}, broken},
		"not allowed":                           {nil, map[string]error{"HTTPRouteList ": forbidden}, forbidden},
		"in all namespaces":                     {[]string{"a", "b"}, nil, nil},
		"not in the second":                     {[]string{"a", "b"}, map[string]error{"HTTPRouteList b": forbidden}, forbidden},
		"not in one without permissions at all": {[]string{"a", "b"}, map[string]error{"HTTPRouteList b": forbidden, "WebServerList b": forbidden}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
					o := (&client.ListOptions{}).ApplyOptions(opts)
					return tc.refuses[l.GetObjectKind().GroupVersionKind().Kind+" "+o.Namespace]
				},
			}).Build()
			if err := checkList(c, tc.namespaces, own, route); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}
