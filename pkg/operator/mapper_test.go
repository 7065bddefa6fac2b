package operator

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMapper_HidesGroupsWithoutPermissions(t *testing.T) {
	all := meta.NewDefaultRESTMapper(nil)
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}, {Group: "apps", Version: "v1", Kind: "Deployment"},
	} {
		all.Add(gvk, meta.RESTScopeNamespace)
	}
	m := mapper{all, []string{"gateway.networking.k8s.io"}}
	if got, err := m.RESTMapping(schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute"}, "v1"); !meta.IsNoMatchError(err) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := m.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "v1"); err != nil || got.Resource.Resource != "deployments" {
		t.Errorf("got %v, %v", got, err)
	}
}
