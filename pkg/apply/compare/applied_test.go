package compare

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// The reasons that a preview gives are those of the API server: who owns a field decides
// whether it is removed.
func TestChanges(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, gatewayv1.Install} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	const (
		service    = `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {`
		deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {`
		route      = `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: a}, spec: {`
	)
	for name, tc := range map[string]struct {
		empty          client.Object
		before, after  string // what is applied at first, and afterwards
		other, manager string // what another manager applies in between
		change         func(client.Object)
		want           []string
	}{
		"nothing": {empty: &corev1.Service{}, before: service + `selector: {a: b}}}`, after: service + `selector: {a: b}}}`},
		"an entry of a map": {
			empty: &corev1.Service{}, before: service + `selector: {a: b, c: d}}}`, after: service + `selector: {a: b}}}`,
			want: []string{"spec.selector.c would be removed"},
		},
		"a whole map": {
			empty: &corev1.Service{}, before: service + `selector: {a: b}}}`, after: service + `type: NodePort}}`,
			want: []string{"spec.selector would be removed", "spec.type would be added"},
		},
		"a port of one of two protocols": {
			empty:  &corev1.Service{},
			before: service + `ports: [{port: 53, protocol: TCP}, {port: 53, protocol: UDP}]}}`, after: service + `ports: [{port: 53, protocol: TCP}]}}`,
			want: []string{"spec.ports[53] would be removed"},
		},
		"a list without keys": {
			empty: &corev1.Service{}, before: service + `externalIPs: [192.0.2.1, 192.0.2.2]}}`, after: service + `externalIPs: [192.0.2.1]}}`,
			want: []string{"spec.externalIPs would change"},
		},
		"what another manager applied too": {
			empty: &corev1.Service{}, before: service + `ports: [{port: 80, protocol: TCP}, {port: 81, protocol: TCP}]}}`, other: service + `ports: [{port: 81, protocol: TCP}]}}`, manager: "other", after: service + `ports: [{port: 80, protocol: TCP}]}}`,
		},
		"what was handed over": {
			empty: &appsv1.Deployment{}, before: deployment + `replicas: 4, paused: true}}`, other: deployment + `replicas: 4}}`, manager: naming.FieldManager + "-hand-over", after: deployment + `paused: true}}`,
		},
		"what was scaled by another client": {
			empty: &appsv1.Deployment{}, before: deployment + `replicas: 4, paused: true}}`, after: deployment + `paused: true}}`,
			change: func(o client.Object) {
				o.SetManagedFields(append(o.GetManagedFields(), entry("kubectl", update, replicasOnly, "scale")))
			},
		},
		"the default": {empty: &appsv1.Deployment{}, before: deployment + `replicas: 1, paused: true}}`, after: deployment + `paused: true}}`},
		"a field of a type that is not of Kubernetes": {
			empty: &gatewayv1.HTTPRoute{}, before: route + `hostnames: [a.example], parentRefs: [{name: web}, {name: b}]}}`, after: route + `parentRefs: [{name: web}]}}`,
			want: []string{"spec.hostnames would be removed", "spec.parentRefs would change"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			apply := func(live client.Object, doc, manager string) client.Object {
				next, err := Applied(scheme, live, decoded(t, doc), manager)
				if err != nil {
					t.Fatal(err)
				}
				return next
			}
			live := apply(tc.empty, tc.before, naming.FieldManager)
			if tc.other != "" {
				live = apply(live, tc.other, tc.manager)
			}
			if tc.change != nil {
				tc.change(live)
			}
			all, err := Changes(live, apply(live, tc.after, naming.FieldManager))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range all {
				got = append(got, d.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}
