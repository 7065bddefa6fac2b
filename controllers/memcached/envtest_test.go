//go:build envtest

package memcached

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/testkit"
	"github.com/platform-operator/platform-operator/pkg/testkit/crash"
)

// env is the API server of this package's tests.
var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, "../..", func(s *runtime.Scheme) error {
		return errors.Join(clientgoscheme.AddToScheme(s), cachev1alpha1.AddToScheme(s))
	}, func(e *testkit.Env) { env = e })
}

func subject() testkit.Subject { return subjectWith(platform) }

func subjectWith(platform config.Platform) testkit.Subject {
	return testkit.SubjectOf(func() converge.AnyKind { return Kind(platform) })
}

func cache(ns, name string) *cachev1alpha1.Memcached {
	return &cachev1alpha1.Memcached{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       cachev1alpha1.MemcachedSpec{Size: 3, NetworkPolicy: &common.NetworkPolicy{Preset: common.NetworkPolicyIsolated}},
	}
}

func specimen() testkit.KindUnderTest {
	return testkit.KindUnderTest{
		Subject:  subject(),
		Resource: "memcacheds",
		New:      func(ns, name string) converge.Object { return cache(ns, name) },
		Children: func(name string) []client.Object {
			return []client.Object{
				&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}},
				&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}},
				&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}},
				&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}},
			}
		},
		Created: []string{"patch controllerrevisions 201"},
		Edit:    func(o converge.Object) { o.(*cachev1alpha1.Memcached).Spec.Image = "memcached:1.6.18" },
		Edited:  []string{"patch controllerrevisions 201", "patch deployments 200"},
		Scale:   func(o converge.Object, n int32) { o.(*cachev1alpha1.Memcached).Spec.Size = n },
		Orphan: func(o converge.Object) {
			o.(*cachev1alpha1.Memcached).Spec.DeletionPolicy = common.DeletionPolicyOrphan
		},
		Serves: serves,
		Stated: func(o converge.Object) [][]byte {
			var all [][]byte
			plan, err := desired(o.(*cachev1alpha1.Memcached), Observed{}, platform)
			if err != nil {
				panic(err) // the operator has just done the same
			}
			for _, in := range plan.Apply {
				raw, err := in.Object(o, ownerKind)
				if err != nil {
					panic(err) // the operator has just sent it
				}
				all = append(all, raw)
			}
			return all
		},
		Own: []string{"/spec/clusterIP", "/spec/ports", "/spec/publishNotReadyAddresses", "/spec/template/spec/containers/"},
		TwoWrites: func(path string) bool {
			container := "/spec/template/spec/containers/0/"
			return slices.ContainsFunc([]string{"/spec/ports", container + "ports", container + "command", container + "args"},
				func(p string) bool { return strings.HasPrefix(path, p) })
		},
	}
}

// serves returns an error if the children do not match the spec of a Memcached. It
// is written from the API documentation, independently of the controller.
func serves(ctx context.Context, r client.Reader, parent client.Object) error {
	m := parent.(*cachev1alpha1.Memcached)
	d, s := &appsv1.Deployment{}, &corev1.Service{}
	key := client.ObjectKeyFromObject(m)
	if err := errors.Join(r.Get(ctx, key, d), r.Get(ctx, key, s)); err != nil {
		return err
	}
	for kind, tc := range map[string]struct {
		child  client.Object
		wanted bool
	}{
		"PodDisruptionBudget": {&policyv1.PodDisruptionBudget{}, m.Spec.Size > 1},
		"NetworkPolicy":       {&networkingv1.NetworkPolicy{}, m.Spec.NetworkPolicy != nil},
	} {
		switch err := r.Get(ctx, key, tc.child); {
		case client.IgnoreNotFound(err) != nil:
			return err
		case apierrors.IsNotFound(err) == tc.wanted:
			return fmt.Errorf("%s exists: got %t, want %t", kind, err == nil, tc.wanted)
		case tc.wanted && !testkit.IsChild(tc.child, m):
			return fmt.Errorf("the %s is not its own", kind)
		}
	}
	c := d.Spec.Template.Spec.Containers[0]
	words := strings.Join(c.Args, " ")
	mib := int64(64)
	if sp := m.Spec.Memory; sp != nil && sp.Size != nil {
		mib = sp.Size.Value() >> 20
	}
	switch {
	case !testkit.IsChild(d, m), !testkit.IsChild(s, m):
		return errors.New("a child is not its own")
	case d.DeletionTimestamp != nil, s.DeletionTimestamp != nil:
		return errors.New("a child is being deleted")
	case m.Spec.Image != "" && c.Image != m.Spec.Image:
		return fmt.Errorf("the Deployment has image %s", c.Image)
	case *d.Spec.Replicas != m.Spec.Size:
		return fmt.Errorf("the Deployment has %d replicas", *d.Spec.Replicas)
	case !strings.HasPrefix(words, fmt.Sprintf("-m %d ", mib)):
		return fmt.Errorf("memcached is started with %q", words)
	case !testkit.IsObserved(d, m), d.Status.UpdatedReplicas != m.Spec.Size, d.Status.AvailableReplicas != m.Spec.Size:
		return errors.New("the Deployment is not rolled out")
	case s.Spec.ClusterIP != corev1.ClusterIPNone:
		return fmt.Errorf("the Service has the address %s", s.Spec.ClusterIP)
	}
	return nil
}

func TestMemcached_RequestBudget(t *testing.T) {
	t.Parallel()
	env.Budget(t, specimen())
}

func TestMemcached_OrphaningBudget(t *testing.T) {
	t.Parallel()
	env.Orphaning(t, specimen())
}

func TestMemcached_RestoresEveryStatedField(t *testing.T) {
	t.Parallel()
	env.Drifting(t, specimen())
}

// TestCrash kills the operator at each write that the image and the size of a Memcached
// cause. What it does like a WebServer is tested there.
func TestCrash(t *testing.T) {
	t.Parallel()
	s := crash.Kind{KindUnderTest: specimen()}
	edit := func(name string, change func(*cachev1alpha1.MemcachedSpec)) crash.Scenario {
		return s.Editing(name, func(o converge.Object) { change(&o.(*cachev1alpha1.Memcached).Spec) })
	}
	back := edit("rollback", func(s *cachev1alpha1.MemcachedSpec) { s.Image, s.Threads = "memcached:bad", new(int32(8)) })
	back.Converged = func(ctx context.Context, w crash.World) (bool, error) {
		m, d := cache(w.Namespace, "web"), &appsv1.Deployment{}
		if err := errors.Join(w.Get(ctx, m.Name, m), w.Get(ctx, "web", d)); err != nil {
			return false, err
		}
		c := meta.FindStatusCondition(m.Status.Conditions, common.ConditionReady)
		r := m.Status.Revisions // counts may be updated some seconds after the conditions
		if c == nil || c.ObservedGeneration != m.Generation || c.Reason != common.ReasonRolledBack || m.Status.Replicas != 3 ||
			r == nil || r.Current != 1 || r.LastHealthy != 1 || r.Failed != 2 || m.Status.Image != platform.Memcached.Image {
			return false, nil
		}
		return d.Spec.Template.Spec.Containers[0].Image == platform.Memcached.Image && d.Status.ObservedGeneration == d.Generation && d.Status.AvailableReplicas == 3, nil
	}
	crash.Test(t, env, s, append(crash.InCampaign(
		edit("change-all", func(s *cachev1alpha1.MemcachedSpec) {
			s.Image, s.Size, s.MaxConnections, s.Threads = "memcached:1.6.18", 4, new(int32(100)), new(int32(2))
			s.Memory = &cachev1alpha1.MemorySpec{Size: new(resource.MustParse("128Mi"))}
		}),
		crash.Scenario{
			Name: "take-image-away", Prepare: s.Prepared(s.Edit),
			Act: func(ctx context.Context, w crash.World) error {
				m := cache(w.Namespace, "web")
				return w.Edit(ctx, m.Name, m, func() { m.Spec.Image = "" })
			},
			Converged: func(ctx context.Context, w crash.World) (bool, error) {
				m := cache(w.Namespace, "web")
				if ok, err := s.Ready(ctx, w); !ok {
					return false, err
				}
				err := w.Get(ctx, m.Name, m)
				return m.Spec.Image == "" && m.Status.Image == "memcached:1.6.18", err
			},
		},
	), back)...)
}
