package certificates

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// fakeCluster returns a cluster with the given objects.
func fakeCluster(t *testing.T, failGet func(client.Object) error, objects ...client.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), admissionregistrationv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if failGet != nil {
				if err := failGet(o); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	return &cluster{client: c, secret: types.NamespacedName{Namespace: "ns", Name: "cert"}, configuration: "op"}
}

func validating(bundles ...string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "op"}}
	for _, b := range bundles {
		c.Webhooks = append(c.Webhooks, admissionregistrationv1.ValidatingWebhook{ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: []byte(b)}})
	}
	return c
}

func mutating(bundles ...string) *admissionregistrationv1.MutatingWebhookConfiguration {
	c := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "op"}}
	for _, b := range bundles {
		c.Webhooks = append(c.Webhooks, admissionregistrationv1.MutatingWebhook{ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: []byte(b)}})
	}
	return c
}

func TestCluster_ReadsTheConfigurationsThatExist(t *testing.T) {
	refused := errors.New("refused")
	for name, tc := range map[string]struct {
		objects []client.Object
		failGet func(client.Object) error
		want    map[string][]string
		err     error
	}{
		"both": {
			objects: []client.Object{validating("a", "b"), mutating("c")},
			want:    map[string][]string{"ValidatingWebhookConfiguration": {"a", "b"}, "MutatingWebhookConfiguration": {"c"}},
		},
		"no mutating one": {
			objects: []client.Object{validating("a")},
			want:    map[string][]string{"ValidatingWebhookConfiguration": {"a"}, "MutatingWebhookConfiguration": nil},
		},
		"no validating one": {
			objects: []client.Object{mutating("c")},
			want:    map[string][]string{"ValidatingWebhookConfiguration": nil, "MutatingWebhookConfiguration": {"c"}},
		},
		"none": {want: map[string][]string{"ValidatingWebhookConfiguration": nil, "MutatingWebhookConfiguration": nil}},
		"one that cannot be read": {
			objects: []client.Object{validating("a"), mutating("c")},
			failGet: func(o client.Object) error {
				if _, ok := o.(*admissionregistrationv1.ValidatingWebhookConfiguration); ok {
					return refused
				}
				return nil
			},
			want: map[string][]string{"MutatingWebhookConfiguration": {"c"}},
			err:  refused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := fakeCluster(t, tc.failGet, tc.objects...).readConfigurations(t.Context())
			if !errors.Is(err, tc.err) {
				t.Errorf("got error %v, want %v", err, tc.err)
			}
			got := map[string][]string{}
			for _, c := range all {
				got[c.kind] = nil
				for _, b := range c.bundles {
					got[c.kind] = append(got[c.kind], string(b))
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
