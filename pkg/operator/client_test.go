package operator

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// laggingClient returns a client with one ConfigMap whose reads fail as those of a client
// whose own writes never appear in its cache. slow is how long they take otherwise.
func laggingClient(slow time.Duration) *boundedClient {
	wait := func(ctx context.Context, disabled bool) error {
		if disabled {
			return nil
		}
		if slow > 0 {
			time.Sleep(slow)
			return ctx.Err()
		}
		<-ctx.Done()
		return ctx.Err()
	}
	inner := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := wait(ctx, (&client.GetOptions{}).ApplyOptions(opts).DisableReadYourWritesConsistency); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if err := wait(ctx, (&client.ListOptions{}).ApplyOptions(opts).DisableReadYourWritesConsistency); err != nil {
				return err
			}
			return c.List(ctx, l, opts...)
		},
	}).Build()
	return &boundedClient{Client: inner, impeded: map[reflect.Type]time.Time{}}
}

func TestBoundedClient_ReadsWhatTheCacheHolds(t *testing.T) {
	key := client.ObjectKey{Namespace: "ns", Name: "web"}
	reads := map[string]func(context.Context, client.Client) (int, error){
		"Get": func(ctx context.Context, c client.Client) (int, error) {
			var m corev1.ConfigMap
			err := c.Get(ctx, key, &m)
			return len(m.Name), err
		},
		"List": func(ctx context.Context, c client.Client) (int, error) {
			var l corev1.ConfigMapList
			err := c.List(ctx, &l, client.InNamespace("ns"))
			return len(l.Items), err
		},
	}
	for name, read := range reads {
		for step, tc := range map[string]struct {
			slow, later, want time.Duration
		}{
			"a write that appears after a second": {slow: time.Second, want: time.Second},
			"a write that never appears":          {want: catchUp},
			"the next read":                       {later: noCatchUp - time.Second},
			"a read after a minute":               {later: noCatchUp + time.Second, want: catchUp},
		} {
			t.Run(name+", "+step, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := laggingClient(tc.slow)
					if tc.later > 0 {
						if _, err := read(t.Context(), c); err != nil {
							t.Fatal(err)
						}
						time.Sleep(tc.later)
					}
					began := time.Now()
					if n, err := read(t.Context(), c); n == 0 || err != nil {
						t.Errorf("got %d and %v", n, err)
					}
					if took := time.Since(began); took != tc.want {
						t.Errorf("it took %s, want %s", took, tc.want)
					}
				})
			})
		}
	}
}

func TestBoundedClient_EndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := laggingClient(0).Get(ctx, client.ObjectKey{Namespace: "ns", Name: "web"}, &corev1.ConfigMap{})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}

// BenchmarkBoundedClient_Get counts what the limit costs each read.
func BenchmarkBoundedClient_Get(b *testing.B) {
	c := &boundedClient{Client: instant{}, impeded: map[reflect.Type]time.Time{}}
	var m corev1.ConfigMap
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Get(b.Context(), client.ObjectKey{}, &m); err != nil {
			b.Fatal(err)
		}
	}
}

type instant struct{ client.Client }

func (instant) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}
