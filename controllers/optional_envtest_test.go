//go:build envtest

package controllers_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/controllers/webserver"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// The Gateway API may be half installed, or its permissions may be missing, when the
// operator starts. Only the objects that need it are affected, until the next term.
func TestOptional_OperatorStartsWithoutBeingAbleToList(t *testing.T) {
	defineOptional(t)
	ns := env.NewNamespace(t)
	var listed atomic.Bool
	refuse := func(cfg *rest.Config) {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/httproutes") || listed.Load() {
					return next.RoundTrip(r)
				}
				return nil, fmt.Errorf("get %s: %w", r.URL.Path, apierrors.NewInternalError(context.DeadlineExceeded))
			})
		})
	}
	subject := testkit.SubjectOf(func() converge.AnyKind { return webserver.Kind(config.Default()) })
	run := func() *testkit.Operator {
		t.Helper()
		o, err := env.Run(t.Context(), subject, refuse)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := o.Stop(); err != nil {
				t.Error(err)
			}
		})
		return o
	}
	term := run()

	for name, expose := range map[string]string{
		"inside":  "",
		"exposed": ", expose: {type: Gateway, hosts: [a.example], gateway: {parentRef: {name: g}}}",
	} {
		w := &unstructured.Unstructured{}
		text := fmt.Sprintf("{apiVersion: my.domain/v1, kind: WebServer, metadata: {namespace: %s, name: %s}, spec: {image: 'nginx:1', service: {type: ClusterIP}%s}}", ns, name, expose)
		if err := yaml.Unmarshal([]byte(text), &w.Object); err != nil {
			t.Fatal(err)
		}
		if err := env.Admin.Create(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	exposed := func(ctx context.Context) *metav1.Condition {
		w := &webserverv1.WebServer{}
		if err := env.Admin.Get(ctx, client.ObjectKey{Namespace: ns, Name: "exposed"}, w); err != nil {
			return nil
		}
		return meta.FindStatusCondition(w.Status.Conditions, "Exposed")
	}
	until := func(what string, ok func(context.Context) (bool, error)) {
		t.Helper()
		if err := testkit.Eventually(t.Context(), what, ok); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"inside", "exposed"} {
		until("the Deployment of "+name, func(ctx context.Context) (bool, error) {
			err := env.Admin.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &appsv1.Deployment{})
			return err == nil, err
		})
	}
	until("the status to say that the route is missing", func(ctx context.Context) (bool, error) {
		c := exposed(ctx)
		return c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "HTTPRoute"), fmt.Errorf("it is %+v", c)
	})
	listed.Store(true)
	if err := term.Stop(); err != nil {
		t.Fatal(err)
	}
	run()
	until("the route", func(ctx context.Context) (bool, error) {
		err := env.Admin.Get(ctx, client.ObjectKey{Namespace: ns, Name: "exposed"}, &gatewayv1.HTTPRoute{})
		return err == nil, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends the request.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
