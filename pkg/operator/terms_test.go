package operator

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	memcachedv1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/telemetry"
)

func TestTerms(t *testing.T) {
	for name, tc := range map[string]struct {
		lasts time.Duration // of each term
		err   error
		want  []time.Duration // when the terms begin
	}{
		"another kind is served":              {3 * time.Second, nil, []time.Duration{0, 3 * time.Second, 6 * time.Second}},
		"the API server is away":              {0, errors.New("refused"), []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}},
		"the Lease was lost after a long one": {time.Minute, errors.New("lost"), []time.Duration{0, 61 * time.Second, 122 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				began := time.Now()
				var got []time.Duration
				err := Terms(ctx, func(context.Context) error {
					got = append(got, time.Since(began))
					if len(got) == len(tc.want) {
						stop()
						return nil
					}
					time.Sleep(tc.lasts)
					return tc.err
				})
				if err != nil || !slices.Equal(got, tc.want) {
					t.Errorf("terms began at %v, want %v; %v", got, tc.want, err)
				}
			})
		})
	}
}

func TestAwait_ReturnsWhenSomethingIsAvailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), 0
		never := func() bool { return false }
		Await(t.Context(), never, func() bool { asked++; return asked == 2 })
		if got := time.Since(began); got != 2*awaitEvery {
			t.Errorf("it took %s, want %s", got, 2*awaitEvery)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*awaitEvery)
		defer cancel()
		Await(ctx, never)
		if ctx.Err() == nil {
			t.Error("it returned although nothing is available")
		}
	})
}

// A kind whose CRD was deleted does not end the others.
func TestServed_TellsMissingKindsApart(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := map[string]string{
			"/api":               `{"kind": "APIVersions", "versions": []}`,
			"/apis":              `{"kind": "APIGroupList", "groups": [{"name": "my.domain", "versions": [{"groupVersion": "my.domain/v1", "version": "v1"}]}]}`,
			"/apis/my.domain/v1": `{"kind": "APIResourceList", "groupVersion": "my.domain/v1", "resources": [{"name": "webservers", "kind": "WebServer", "namespaced": true}]}`,
		}[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	scheme := runtime.NewScheme()
	if err := errors.Join(webserverv1.AddToScheme(scheme), memcachedv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	web, cache := &webserverv1.WebServer{}, &memcachedv1alpha1.Memcached{}
	served, missing, err := Served(&rest.Config{Host: server.URL}, scheme, []telemetry.Object{cache, web})
	if err != nil || !slices.Equal(served, []telemetry.Object{web}) || !slices.Equal(missing, []telemetry.Object{cache}) {
		t.Errorf("served are %v, missing are %v: %v", served, missing, err)
	}
}
