package converge

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/platform-operator/platform-operator/pkg/fault"
)

// gateway is a cluster in which HTTPRoutes may become available.
type gateway struct {
	meta.RESTMapper
	serves bool
}

func (g *gateway) RESTMapping(gk schema.GroupKind, v ...string) (*meta.RESTMapping, error) {
	if g.serves {
		return &meta.RESTMapping{}, nil
	}
	return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: v}
}

func TestUnavailable_ATypeBecomesAvailable(t *testing.T) {
	route := schema.GroupVersionKind{Group: gatewayv1.GroupName, Version: "v1", Kind: "HTTPRoute"}
	refused := errors.New("no answer")
	for name, tc := range map[string]struct {
		serves bool
		list   error
		want   bool
	}{
		"not served":         {serves: false, list: nil, want: false},
		"served, not listed": {serves: true, list: refused, want: false},
		"served, and listed": {serves: true, list: nil, want: true},
		"neither of the two": {serves: false, list: refused, want: false},
	} {
		t.Run(name, func(t *testing.T) {
			u := unavailable{"HTTPRoute": {route, msgNotAvailable}}
			got := u.available(&gateway{serves: tc.serves}, func(schema.GroupVersionKind) error { return tc.list })
			if got != tc.want {
				t.Errorf("available %v, want %v", got, tc.want)
			}
		})
	}
}

func TestUnavailable(t *testing.T) {
	u := unavailable{"HTTPRoute": {schema.GroupVersionKind{Group: gatewayv1.GroupName, Version: "v1", Kind: "HTTPRoute"}, msgNotAvailable}}
	if u.has("HTTPRoute") || fault.Classify(u.check("HTTPRoute")).Class != fault.Stall {
		t.Errorf("HTTPRoutes: has %v, check %v", u.has("HTTPRoute"), u.check("HTTPRoute"))
	}
	if err := u.check("Deployment"); !u.has("Deployment") || err != nil {
		t.Errorf("others: has %v, check %v", u.has("Deployment"), err)
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
