package resources

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
)

// applying returns an empty cluster, and a function that applies an intent there and
// reads the child.
func applying(t *testing.T) (c client.Client, applyTo func(live client.Object, in apply.Intent)) {
	t.Helper()
	c = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithReturnManagedFields().Build()
	a := apply.NewApplier(c, c, nil)
	owner := apply.Owner{Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "1"}}, GVK: metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}
	return c, func(live client.Object, in apply.Intent) {
		t.Helper()
		if _, err := a.Apply(t.Context(), owner, in); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "web"}, live); err != nil {
			t.Fatal(err)
		}
	}
}

func TestService_RemovesAdditionsThatLoseRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		of     corev1.ServiceType
		change func(*corev1.ServiceSpec)
		stays  bool
	}{
		"a label in the selector":     {change: func(s *corev1.ServiceSpec) { s.Selector["no"] = "pod" }},
		"a port":                      {change: func(s *corev1.ServiceSpec) { s.Ports = append(s.Ports, corev1.ServicePort{Port: 81}) }},
		"pods that are not ready":     {change: func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = true }},
		"only pods of the same node":  {change: func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal) }},
		"the default of that":         {change: func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyCluster) }, stays: true},
		"pods of the same zone first": {change: func(s *corev1.ServiceSpec) { s.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferClose) }, stays: true},
		"ranges of the load balancer": {of: corev1.ServiceTypeLoadBalancer, change: func(s *corev1.ServiceSpec) { s.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} }, stays: true},
		"ranges of no load balancer":  {change: func(s *corev1.ServiceSpec) { s.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} }},
	} {
		t.Run(name, func(t *testing.T) {
			c, applyTo := applying(t)
			applied := func() *corev1.Service {
				t.Helper()
				ac := corev1ac.Service("web", "ns").WithSpec(corev1ac.ServiceSpec().WithSelector(selector).
					WithPorts(corev1ac.ServicePort().WithProtocol(corev1.ProtocolTCP).WithPort(80)))
				if tc.of != "" {
					ac.Spec.WithType(tc.of)
				}
				s := &corev1.Service{}
				applyTo(s, Service(ac, common.ServiceOptions{}))
				return s
			}
			want := applied()
			changed := want.DeepCopy()
			tc.change(&changed.Spec)
			if err := c.Update(t.Context(), changed, client.FieldOwner("kubectl-patch")); err != nil {
				t.Fatal(err)
			}
			got := applied()
			if tc.stays {
				want = changed
			}
			if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeployment_RemovesAdditionsToThePodTemplate(t *testing.T) {
	type add = func(*corev1.PodSpec)
	ofContainer := func(change func(*corev1.Container)) add { return func(p *corev1.PodSpec) { change(&p.Containers[0]) } }
	for name, tc := range map[string]struct {
		change add
		stays  bool
	}{
		"a container": {change: func(p *corev1.PodSpec) {
			p.Containers = append(p.Containers, corev1.Container{Name: "side", Image: "nginx:crash"})
		}},
		"an init container": {change: func(p *corev1.PodSpec) {
			p.InitContainers = []corev1.Container{{Name: "side", Image: "nginx:crash"}}
		}},
		"a volume": {change: func(p *corev1.PodSpec) {
			p.Volumes = append(p.Volumes, corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
		}},
		"the host's processes":   {change: func(p *corev1.PodSpec) { p.HostPID = true }},
		"the host's network":     {change: func(p *corev1.PodSpec) { p.HostNetwork = true }},
		"a node selector":        {change: func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{"no": "where"} }},
		"another scheduler":      {change: func(p *corev1.PodSpec) { p.SchedulerName = "absent" }},
		"root":                   {change: func(p *corev1.PodSpec) { p.SecurityContext.RunAsUser = new(int64(0)) }},
		"a privileged container": {change: ofContainer(func(c *corev1.Container) { c.SecurityContext.Privileged = new(true) })},
		"a capability":           {change: ofContainer(func(c *corev1.Container) { c.SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"} })},
		"a request": {change: ofContainer(func(c *corev1.Container) {
			c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1k")}
		})},
		"an environment variable": {change: ofContainer(func(c *corev1.Container) { c.Env = []corev1.EnvVar{{Name: "A", Value: "b"}} })},
		"a probe":                 {change: ofContainer(func(c *corev1.Container) { c.LivenessProbe = &corev1.Probe{PeriodSeconds: 1} })},
		"defaults of the API server": {change: func(p *corev1.PodSpec) {
			p.DNSPolicy, p.SchedulerName = corev1.DNSClusterFirst, corev1.DefaultSchedulerName
			c := &p.Containers[0]
			c.TerminationMessagePath, c.ImagePullPolicy = "/dev/termination-log", corev1.PullIfNotPresent
			c.SecurityContext.ProcMount = new(corev1.DefaultProcMount)
		}, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			c, applyTo := applying(t)
			applied := func() *appsv1.Deployment {
				t.Helper()
				pod := PodSpec().WithSecurityContext(restrictedPod(101)).
					WithContainers(corev1ac.Container().WithName("web").WithImage("nginx:1").WithSecurityContext(RestrictedContainer()))
				r := Rolling{Name: "web", Namespace: "ns", Replicas: new(int32(1)), Selector: selector, Template: Template(selector, pod)}
				d := &appsv1.Deployment{}
				applyTo(d, Deployment(r))
				return d
			}
			want := applied()
			changed := want.DeepCopy()
			changed.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "now"}
			tc.change(&changed.Spec.Template.Spec)
			if err := c.Update(t.Context(), changed, client.FieldOwner("kubectl-patch")); err != nil {
				t.Fatal(err)
			}
			got := applied()
			if got.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" {
				t.Error("the annotation of kubectl rollout restart was removed, which restarts the pods again")
			}
			if tc.stays {
				if got.ResourceVersion != changed.ResourceVersion {
					t.Error("it was written for nothing")
				}
				return
			}
			if g, w := encoded(t, got.Spec.Template.Spec), encoded(t, want.Spec.Template.Spec); g != w {
				t.Errorf("got pods\n%s\nwant\n%s", g, w)
			}
			if again := applied(); again.ResourceVersion != got.ResourceVersion {
				t.Error("it is written again and again")
			}
		})
	}
}

// Kubernetes refuses the bounds of a rolling update together with another strategy.
func TestDeployment_RecreateHasNoBounds(t *testing.T) {
	c, applyTo := applying(t)
	r := Rolling{Name: "web", Namespace: "ns", Replicas: new(int32(1)), Selector: selector, Template: Template(selector, PodSpec())}
	d := &appsv1.Deployment{}
	applyTo(d, Deployment(r))
	d.Spec.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(3))
	if err := c.Update(t.Context(), d, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	r.Rollout = &common.Rollout{Strategy: appsv1.RecreateDeploymentStrategyType}
	applyTo(d, Deployment(r))
	if s := d.Spec.Strategy; s.Type != appsv1.RecreateDeploymentStrategyType || s.RollingUpdate != nil {
		t.Errorf("got %+v", s)
	}
	r.Rollout = nil
	applyTo(d, Deployment(r))
	if s := d.Spec.Strategy; s.Type != appsv1.RollingUpdateDeploymentStrategyType || s.RollingUpdate.MaxSurge.StrVal != "25%" {
		t.Errorf("got %+v", s)
	}
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestExclusive_CoversEveryStatedContainer(t *testing.T) {
	template := Template(selector, corev1ac.PodSpec().WithContainers(corev1ac.Container().WithName("web"), corev1ac.Container().WithName("exporter")).
		WithInitContainers(corev1ac.Container().WithName("check")))
	all := strings.Join(exclusive(template), " ")
	for _, want := range []string{"containers[web].env", "containers[exporter].args", "initContainers[check].command"} {
		if !strings.Contains(all, "spec.template.spec."+want) {
			t.Errorf("%s is not exclusive", want)
		}
	}
}
