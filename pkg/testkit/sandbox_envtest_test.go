//go:build envtest

package testkit

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// On a busy machine, the operator may react after the time without requests for
// which Requests waits.
func TestSandbox_ExpectWaitsForALateRequest(t *testing.T) {
	t.Parallel()
	operator, err := client.New(env.Operator, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	l := env.NewSandbox(t, Subject{})
	sent := make(chan error, 1)
	time.AfterFunc(1500*time.Millisecond, func() {
		sent <- operator.Get(context.WithoutCancel(t.Context()), client.ObjectKey{Namespace: l.Namespace, Name: "none"}, &corev1.ConfigMap{})
	})
	l.Expect("a late read", "get configmaps 404")
	if err := <-sent; !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	l.Expect("nothing more")
}
