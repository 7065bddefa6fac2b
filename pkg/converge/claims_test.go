package converge

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestReader_Claimants(t *testing.T) {
	claiming := func(namespace, name, claims string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)}, Data: map[string]string{claims: ""}}
	}
	of := func(o client.Object) (all []string) {
		for k := range o.(*corev1.ConfigMap).Data {
			all = append(all, k)
		}
		return all
	}
	one := claiming("a", "one", "host")
	cache := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
		WithObjects(one, claiming("a", "two", "another"), claiming("b", "one", "host")).
		WithIndex(&corev1.ConfigMap{}, "claims-of-web", of).Build()
	r := Reader{claims: &claims{cache, clientgoscheme.Scheme, "claims-of-web", of}}
	others, err := r.Claimants(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range others {
		got = append(got, o.GetNamespace()+"/"+o.GetName())
	}
	if diff := cmp.Diff([]string{"b/one"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
