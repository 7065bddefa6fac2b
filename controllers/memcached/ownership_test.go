//go:build envtest

package memcached

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// node creates a pod as the Deployment of a cache does. The simulated kubelet of
// testkit makes it ready.
func node(l *testkit.Sandbox, of, name string) *corev1.Pod {
	l.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: name, Labels: map[string]string{
			"app": "memcached", "memcached_cr": of, naming.LabelManagedBy: naming.ManagedBy,
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "memcached", Image: "memcached:1.6"}}},
	}
	l.Create(p)
	return p
}

func TestMemcached_TwoInOneNamespaceListOnlyTheirPods(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	caches := map[string]*cachev1alpha1.Memcached{}
	for _, name := range []string{"memcached-for-wordpress", "memcached-for-drupal"} {
		caches[name] = cache(l.Namespace, name)
		l.Create(caches[name])
		l.Ready(caches[name], name)
		if n := caches[name].Status.Nodes; n == nil || len(n) != 0 {
			t.Errorf("nodes of %s are %#v, want []", name, n)
		}
	}
	node(l, "memcached-for-wordpress", "w-2")
	node(l, "memcached-for-wordpress", "w-1")
	drupal := node(l, "memcached-for-drupal", "d-1")
	listed := func(name string, want ...string) {
		t.Helper()
		l.Until("the nodes of "+name+" to be "+strings.Join(want, ", "), caches[name], name, func() bool {
			return caches[name].Status.Nodes != nil && slices.Equal(caches[name].Status.Nodes, want)
		})
	}
	listed("memcached-for-wordpress", "w-1", "w-2")
	listed("memcached-for-drupal", "d-1")
	if err := env.Admin.Delete(t.Context(), drupal, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	listed("memcached-for-drupal")
	listed("memcached-for-wordpress", "w-1", "w-2")
}

// The legacy operator created the Deployment, and in later samples a Service with a
// cluster IP, which cannot be removed from a Service.
func TestMemcached_AdoptsChildrenOfTheLegacyOperator(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject())
	m := cache(l.Namespace, "example")
	l.Create(m)
	owner := []metav1.OwnerReference{*metav1.NewControllerRef(m, cachev1alpha1.GroupVersion.WithKind(cachev1alpha1.Kind))}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "example", OwnerReferences: owner}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(3)),
		Selector: &metav1.LabelSelector{MatchLabels: m.PodLabels()},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: m.PodLabels()},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "memcached", Image: "memcached:1.4.36-alpine",
				Command: []string{"memcached", "-m=64", "-o", "modern", "-v"},
				Ports:   []corev1.ContainerPort{{Name: "memcached", ContainerPort: 11211}},
			}}},
		},
	}}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "example", OwnerReferences: owner, Labels: m.PodLabels()}, Spec: corev1.ServiceSpec{
		Selector: m.PodLabels(), Ports: []corev1.ServicePort{{Name: "example", Port: 11211}},
	}}
	for _, o := range []client.Object{d, s} {
		if err := env.Admin.Create(t.Context(), o, client.FieldOwner("memcached-operator")); err != nil {
			t.Fatal(err)
		}
	}
	was, ip := d.UID, s.Spec.ClusterIP
	l.Start()
	l.Ready(m, "example")
	l.Get(d, "example")
	c := d.Spec.Template.Spec.Containers[0]
	if d.UID != was || !slices.Equal(c.Command, []string{"memcached"}) || !slices.Equal(c.Args, args(m)) || c.ReadinessProbe == nil {
		t.Errorf("not taken over in place: UID kept %t, container %+v", d.UID == was, c)
	}
	l.Get(s, "example")
	if s.Spec.ClusterIP != ip || len(s.Spec.Ports) != 1 || s.Spec.Ports[0].Name != "memcached" || !s.Spec.PublishNotReadyAddresses {
		t.Errorf("the Service was not taken over: had %s, is %+v", ip, s.Spec)
	}
	l.Requests()
	l.Restart()
	l.Expect("restart after the takeover")
	if err := env.Admin.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	l.Until("the Service to come back headless", s, "example", func() bool { return s.Spec.ClusterIP == corev1.ClusterIPNone })
}

func TestMemcached_RemovesAdditionsToExclusivePaths(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	m := cache(l.Namespace, "example")
	l.Create(m)
	l.Ready(m, "example")
	d, s := &appsv1.Deployment{}, &corev1.Service{}
	l.Edit(d, "example", func() {
		c := &d.Spec.Template.Spec.Containers[0]
		c.Command, c.Args, c.Env = []string{"memcached", "-m=64"}, append(c.Args, "-A"), []corev1.EnvVar{{Name: "A", Value: "b"}}
	})
	l.Until("command, args and env to be replaced", d, "example", func() bool {
		c := d.Spec.Template.Spec.Containers[0]
		return len(c.Command) == 1 && slices.Equal(c.Args, args(m)) && c.Env == nil
	})
	l.Edit(s, "example", func() {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "back-door", Port: 8080, TargetPort: intstr.FromInt(22)})
	})
	l.Until("the second port to go", s, "example", func() bool { return len(s.Spec.Ports) == 1 })
	l.Edit(s, "example", func() { s.Spec.Selector["version"] = "2" })
	l.Until("the selector to be replaced", s, "example", func() bool { return len(s.Spec.Selector) == 2 })
}

// An image that is no longer the platform's default is kept: a restart would lose
// the content of the cache.
func TestMemcached_KeepsPodsIfThePlatformsImageChanges(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	m := cache(l.Namespace, "example")
	l.Create(m)
	l.Ready(m, "example")
	later := env.NewSandbox(t, subjectWith(config.Platform{Memcached: config.Memcached{Image: "memcached:1.7"}}))
	later.Namespace = l.Namespace
	later.Requests() // discards the requests of the first operator
	later.Start()
	later.Expect("another default of the platform")
	l.Get(m, "example")
	if m.Status.Image != platform.Memcached.Image {
		t.Errorf("image is %s", m.Status.Image)
	}
}

// The schema alone rejects the same specs as admission.
func TestSchema_RejectsInvalidSpecs(t *testing.T) {
	t.Parallel()
	ns := env.NewNamespace(t)
	for name, tc := range map[string]struct {
		name string
		spec map[string]any
		want string // part of the validation error; "" if it is valid
	}{
		"nothing":              {"a", map[string]any{"size": 3}, ""},
		"no size":              {"a", map[string]any{}, "spec.size: Required value"},
		"no node":              {"a", map[string]any{"size": 0}, ""},
		"less than none":       {"a", map[string]any{"size": -1}, "greater than or equal to 0"},
		"too many":             {"a", map[string]any{"size": 65}, "less than or equal to 64"},
		"name of 64":           {strings.Repeat("a", 64), map[string]any{"size": 1}, "no more than 63 characters"},
		"name of 63":           {strings.Repeat("a", 63), map[string]any{"size": 1}, ""},
		"name with a digit":    {"1a", map[string]any{"size": 1}, "must start with a letter"},
		"memory":               {"a", map[string]any{"size": 1, "memory": map[string]any{"size": "1Gi"}}, ""},
		"memory in bytes":      {"a", map[string]any{"size": 1, "memory": map[string]any{"size": 67108864}}, ""},
		"memory in MB":         {"a", map[string]any{"size": 1, "memory": map[string]any{"size": "64M"}}, "must be whole MiB"},
		"too little":           {"a", map[string]any{"size": 1, "memory": map[string]any{"size": "1Mi"}}, "between 2Mi and 1Ti"},
		"too much":             {"a", map[string]any{"size": 1, "memory": map[string]any{"size": "2Ti"}}, "between 2Mi and 1Ti"},
		"no quantity":          {"a", map[string]any{"size": 1, "memory": map[string]any{"size": "many"}}, "should match"},
		"no connection":        {"a", map[string]any{"size": 1, "maxConnections": 0}, "greater than or equal to 1"},
		"too many threads":     {"a", map[string]any{"size": 1, "threads": 65}, "less than or equal to 64"},
		"image with a space":   {"a", map[string]any{"size": 1, "image": "a b"}, "must be an image"},
		"another policy":       {"a", map[string]any{"size": 1, "deletionPolicy": "Keep"}, "Unsupported value"},
		"an even size, as 3→4": {"a", map[string]any{"size": 4}, ""},
		"every block": {"a", map[string]any{
			"size": 3, "imagePullPolicy": "Always", "imagePullSecrets": list(fields("name", "r")),
			"resources": fields("requests", fields("cpu", "100m"), "limits", fields("cpu", 1)),
			"pod":       fields("priorityClassName", "high"), "security": fields("profile", "Restricted", "runAsUser", 1000),
			"service": fields("annotations", fields("a.b/c", "d")), "podDisruptionBudget": fields("maxUnavailable", 1),
			"networkPolicy": fields("preset", "Isolated"), "rollout": fields("onFailure", "Halt"), "paused": true,
		}, ""},
		"memory asked for":    {"a", map[string]any{"size": 1, "resources": fields("requests", fields("memory", "1Gi"))}, "spec.resources.requests: Forbidden: memory is derived"},
		"memory limited":      {"a", map[string]any{"size": 1, "resources": fields("limits", fields("memory", "1Gi"))}, "spec.resources.limits: Forbidden: memory is derived"},
		"less security":       {"a", map[string]any{"size": 1, "security": fields("profile", "Baseline")}, "spec.security.profile: Invalid value: profile must be Restricted"},
		"volumes":             {"a", map[string]any{"size": 1, "pod": fields("volumes", list(fields("name", "a", "emptyDir", fields())))}, "spec.pod.volumes: Forbidden: memcached reads no volumes; remove the field"},
		"restart on a change": {"a", map[string]any{"size": 1, "rollout": fields("restartOnConfigChange", true)}, "spec.rollout.restartOnConfigChange: Forbidden: memcached reads no ConfigMaps; remove the field"},
		"a type of Service":   {"a", map[string]any{"size": 1, "service": fields("type", "NodePort")}, `unknown field "spec.service.type"`},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: map[string]any{"spec": tc.spec}}
			u.SetGroupVersionKind(cachev1alpha1.GroupVersion.WithKind(cachev1alpha1.Kind))
			u.SetNamespace(ns)
			u.SetName(tc.name)
			err := env.Admin.Create(t.Context(), u, client.DryRunAll, client.FieldValidation("Strict"))
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && (!apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func list(elements ...any) []any { return elements }

// fields returns a map from alternating names and values.
func fields(pairs ...any) map[string]any {
	m := map[string]any{}
	for pair := range slices.Chunk(pairs, 2) {
		m[pair[0].(string)] = pair[1]
	}
	return m
}
