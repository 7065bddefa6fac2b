//go:build envtest

package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// TestRBAC_KindsCanBeDisabled runs the operator with each kind alone, with the
// permissions that the chart then grants. The API server must reject nothing, and an object of a disabled kind must not be touched, as if
// its CRD did not exist.
func TestRBAC_KindsCanBeDisabled(t *testing.T) {
	defineOptional(t)
	all := controllers.Names(controllers.Kinds(config.Default()))
	places := make(chan struct{}, 4)
	for _, kind := range all {
		t.Run(kind+" alone", func(t *testing.T) {
			t.Parallel()
			places <- struct{}{}
			defer func() { <-places }()
			permissions := slices.DeleteFunc(granted(t), func(r permission) bool { return r.role == "manager" })
			permissions = append(permissions, permissionsIn(t, "manager", filepath.Join("..", "charts", "platform-operator", "files", "roles", strings.ToLower(kind)+".yaml"))...)
			s := newStage(t, permissions)
			bystanders := s.disable([]string{kind})
			if err := s.play((*stage).short); err != nil {
				t.Errorf("%v; refused: %q", err, s.wire.denied())
			}
			if d := s.wire.denied(); len(d) > 0 {
				t.Errorf("refused, or of a disabled kind: %q", d)
			}
			for _, o := range bystanders {
				if err := env.Admin.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
					t.Error(err)
				}
				unprocessed := map[string]any{"observedGeneration": int64(-1)} // the default of the CRDs
				if diff := cmp.Diff(any(unprocessed), o.Object["status"]); diff != "" || len(o.GetFinalizers()) > 0 {
					t.Errorf("%s, which is disabled: finalizers %q, status %v", o.GetKind(), o.GetFinalizers(), o.Object["status"])
				}
			}
		})
	}
}

// disable creates an object of each other kind, and returns them.
func (s *stage) disable(enabled []string) []*unstructured.Unstructured {
	s.Helper()
	all, err := s.life("little")
	if err != nil {
		s.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool { return slices.Contains(enabled, o.GetKind()) })
	for _, o := range all {
		o.SetNamespace(s.ns)
		s.create(o)
		s.wire.without = append(s.wire.without, o.GroupVersionKind().Group)
	}
	s.kinds = enabled
	return all
}

// short is the scenario of the enabled kinds: objects with every child, then with
// few, and their deletion, which releases the children.
func (s *stage) short(ctx context.Context) error {
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{"objects are created", func(ctx context.Context) error { return s.apply(ctx, "everything", false) }},
		{"their pods run", s.ready},
		{"all are observed", s.observed},
		{"less is asked for", func(ctx context.Context) error { return s.apply(ctx, "little", true) }},
		{"children go", s.childrenGo},
		{"objects are deleted", s.deleteObjects},
	}
	for _, step := range steps {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, errors.Join(err, ctx.Err()))
		}
	}
	return nil
}

// observed waits until the operator has reported whether each object is ready.
func (s *stage) observed(ctx context.Context) error {
	all, err := s.life("everything")
	if err != nil {
		return err
	}
	return testkit.Eventually(ctx, "all conditions", func(ctx context.Context) (bool, error) {
		for _, o := range all {
			if got, err := s.condition(ctx, o.GetKind(), o.GetName(), "Ready", "status"); got == "" || err != nil {
				return false, err
			}
		}
		return true, nil
	})
}
