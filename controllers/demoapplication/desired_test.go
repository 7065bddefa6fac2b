package demoapplication

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/resources/monitoring"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

// ownerKind is what the reconcile loop passes for every DemoApplication.
var ownerKind = metav1.GroupVersionKind{Group: "paas.cmft.com", Version: "v1", Kind: "DemoApplication"}

// cases reads the cases in testdata. in.yaml contains the DemoApplication, followed
// by the live objects, if any: children, and ConfigMaps of the user, which lack the
// annotation of a snapshot's source.
func cases(t *testing.T) map[string]func() (*demoapplicationv1.DemoApplication, Observed) {
	t.Helper()
	all := map[string]func() (*demoapplicationv1.DemoApplication, Observed){}
	for name, docs := range golden.Cases(t) {
		all[name] = func() (*demoapplicationv1.DemoApplication, Observed) {
			t.Helper()
			a, o := &demoapplicationv1.DemoApplication{}, Observed{Offline: len(docs) <= 1, Now: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)}
			into(t, docs[0], a)
			for _, doc := range docs[1:] {
				live(t, doc, &o)
			}
			return a, o
		}
	}
	return all
}

func into[T any](t *testing.T, doc string, v T) T {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(doc), v); err != nil {
		t.Fatalf("%v:\n%s", err, doc)
	}
	return v
}

// live adds one live object to the observed state.
func live(t *testing.T, doc string, o *Observed) {
	t.Helper()
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
		t.Fatal(err)
	}
	switch kind.Kind {
	case "Deployment":
		o.Deployment = into(t, doc, &appsv1.Deployment{})
	case "Pod":
		o.Pods = append(o.Pods, *into(t, doc, &corev1.Pod{}))
	case "Service":
		o.Service = into(t, doc, &corev1.Service{})
	case "ControllerRevision":
		o.Revisions = append(o.Revisions, into(t, doc, &appsv1.ControllerRevision{}))
	case "HorizontalPodAutoscaler":
		o.Autoscaler = into(t, doc, &autoscalingv2.HorizontalPodAutoscaler{})
	case "PodDisruptionBudget":
		o.Budget = into(t, doc, &policyv1.PodDisruptionBudget{})
	case "NetworkPolicy":
		o.NetworkPolicy = into(t, doc, &networkingv1.NetworkPolicy{})
	case "Ingress":
		o.Ingress = into(t, doc, &networkingv1.Ingress{})
	case "HTTPRoute":
		o.Route = into(t, doc, &gatewayv1.HTTPRoute{})
	case "PodMonitor":
		o.PodMonitor = into(t, doc, &monitoring.PodMonitor{})
	case "Job":
		o.Jobs = append(o.Jobs, into(t, doc, &batchv1.Job{}))
	case "ConfigMap":
		c := into(t, doc, &corev1.ConfigMap{})
		if c.Annotations[naming.AnnotationSource] != "" {
			o.Snapshots = append(o.Snapshots, c)
			return
		}
		if o.Sources == nil {
			o.Sources = map[string]configsource.Source{}
		}
		o.Sources[c.Name] = configsource.Source{Found: true, Version: string(c.UID) + "/1", Content: c}
	default:
		t.Fatalf("what is a %s?", kind.Kind)
	}
}

// platform is the platform configuration of these tests.
var platform = judging(config.Default())

// judging adds an image that judges canaries.
func judging(p config.Platform) config.Platform {
	p.Pods.JudgeImage = "platform-operator:dev"
	return p
}

func planned(t *testing.T, a *demoapplicationv1.DemoApplication, o Observed) converge.Plan {
	t.Helper()
	plan, err := desired(a, o, platform)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// printed returns the children as they would be sent, and those that would be
// deleted.
func printed(t *testing.T, a *demoapplicationv1.DemoApplication, o Observed) []byte {
	t.Helper()
	plan := planned(t, a, o)
	return golden.Children(t, a, ownerKind, plan.Apply, plan.Prune)
}

func TestDesired(t *testing.T) {
	golden.CompareCases(t, "seed", cases(t), func(t *testing.T, in func() (*demoapplicationv1.DemoApplication, Observed)) []byte {
		t.Helper()
		a, o := in()
		return printed(t, a, o)
	})
}

func TestDesired_IsDeterministic(t *testing.T) {
	for name, in := range cases(t) {
		t.Run(name, func(t *testing.T) {
			a, o := in()
			first := printed(t, a, o)
			if diff := cmp.Diff(string(first), string(printed(t, a, o))); diff != "" {
				t.Errorf("two passes over the same differ:\n%s", diff)
			}
			before, seen := in()
			if diff := cmp.Diff(before, a); diff != "" {
				t.Errorf("the object was changed:\n%s", diff)
			}
			if diff := cmp.Diff(seen, o); diff != "" {
				t.Errorf("what was observed was changed:\n%s", diff)
			}
		})
	}
}

func TestDesired_SetsOwnerLabelAndHash(t *testing.T) {
	for name, in := range cases(t) {
		t.Run(name, func(t *testing.T) {
			a, o := in()
			for _, in := range planned(t, a, o).Apply {
				raw, err := in.Object(a, ownerKind)
				if err != nil {
					t.Fatal(err)
				}
				var c metav1.PartialObjectMetadata
				if err := json.Unmarshal(raw, &c); err != nil {
					t.Fatal(err)
				}
				owners := []metav1.OwnerReference{{
					APIVersion: "paas.cmft.com/v1", Kind: "DemoApplication", Name: a.Name, UID: a.UID,
					Controller: new(true), BlockOwnerDeletion: new(true),
				}}
				if a.GetDeletionPolicy() == common.DeletionPolicyOrphan && c.Kind != "ControllerRevision" {
					owners = nil
				}
				if diff := cmp.Diff(owners, c.OwnerReferences); diff != "" {
					t.Errorf("%s: owner (-want +got):\n%s", c.Kind, diff)
				}
				if c.Labels[naming.LabelManagedBy] != naming.ManagedBy || c.Annotations[naming.AnnotationOwner] != string(a.UID) ||
					c.Annotations[naming.AnnotationApplied] == "" || c.Namespace != a.Namespace || c.Name != a.Name && c.Kind != "ControllerRevision" && c.Kind != "ConfigMap" && c.Kind != "Job" {
					t.Errorf("%s: %+v", c.Kind, c.ObjectMeta)
				}
			}
		})
	}
}

// Users of the legacy operator see the same objects, except that a node port
// requires a Service of type NodePort.
func TestDesired_KeepsTheNamesOfTheLegacyOperator(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", "demoapplication_v1.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	a := &demoapplicationv1.DemoApplication{}
	if err := yaml.UnmarshalStrict(raw, a); err != nil {
		t.Fatal(err)
	}
	a.Namespace = "default"
	d, s := typed(t, a, Observed{Offline: true})

	pods := map[string]string{"app": "nginx-demo", "demoapplication_cr": "nginx-demo"}
	withOurs := maps.Clone(pods)
	withOurs[naming.LabelManagedBy] = naming.ManagedBy
	c := d.Spec.Template.Spec.Containers[0]

	for what, is := range map[string]struct{ want, got any }{
		"Deployment's name":    {"nginx-demo", d.Name},
		"replicas":             {int32(2), *d.Spec.Replicas},
		"selector":             {&metav1.LabelSelector{MatchLabels: pods}, d.Spec.Selector},
		"pod labels":           {withOurs, d.Spec.Template.Labels},
		"number of containers": {1, len(d.Spec.Template.Spec.Containers)},
		"container's name":     {"nginx-demo", c.Name},
		"image":                {"nginx:latest", c.Image},
		"container's ports":    {[]corev1.ContainerPort{{Name: "tcp-80", ContainerPort: 80, Protocol: corev1.ProtocolTCP}}, c.Ports},
		"Service's name":       {"nginx-demo", s.Name},
		"Service's selector":   {pods, s.Spec.Selector},
		"Service's type":       {corev1.ServiceTypeNodePort, s.Spec.Type},
		"Service's ports": {[]corev1.ServicePort{
			{Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromString("tcp-80"), NodePort: 30002},
		}, s.Spec.Ports},
	} {
		if diff := cmp.Diff(is.want, is.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// Other children may keep the Deployment from being created, and the Service does
// not depend on it.
func TestObject_PlansTheServiceWhateverIsObserved(t *testing.T) {
	d, s := &appsv1.Deployment{}, &corev1.Service{}
	for name, o := range map[string]Observed{
		"offline":                          {Offline: true},
		"no children":                      {},
		"the Deployment":                   {Observed: rollout.Observed{Deployment: d}},
		"the Deployment and the Service":   {Observed: rollout.Observed{Deployment: d}, Service: s},
		"the Service without a Deployment": {Service: s},
	} {
		t.Run(name, func(t *testing.T) {
			var kinds []string
			plan := planned(t, sample(), o)
			for _, in := range plan.Apply {
				kinds = append(kinds, in.Kind)
			}
			if i, j := slices.Index(kinds, "Deployment"), slices.Index(kinds, "Service"); i < 0 || j < i || len(plan.Prune) != 0 {
				t.Errorf("children to apply: %v; to prune: %v", kinds, plan.Prune)
			}
		})
	}
}

// Only the pods depend on the revision, so the Service does not wait for one that
// does not exist.
func TestDesired_HasAServiceWithoutATemplate(t *testing.T) {
	a := sample()
	a.Spec.Rollout = &demoapplicationv1.Rollout{Rollout: common.Rollout{PinnedRevision: new(int64(99))}}
	plan, err := desired(a, Observed{}, platform)
	if err == nil {
		t.Error("a revision that does not exist is no problem")
	}
	i := slices.IndexFunc(plan.Apply, func(in apply.Intent) bool { return in.Kind == "Service" })
	if i < 0 {
		t.Fatalf("no Service among %v", plan.Apply)
	}
	// If it exists, it may be that of the legacy operator, which selects its pods.
	for name, selector := range map[string]map[string]string{"legacy": articleLabels(a), "current": a.PodLabels()} {
		in := plan.Apply[i].IfExists(&corev1.Service{Spec: corev1.ServiceSpec{Selector: selector}})
		raw, err := in.Object(a, ownerKind)
		if err != nil {
			t.Fatal(err)
		}
		s := &corev1.Service{}
		if err := json.Unmarshal(raw, s); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(selector, s.Spec.Selector); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDesired_FallsBackOnlyForARejectedSelector(t *testing.T) {
	refused := func(fields ...string) error {
		var errs field.ErrorList
		for _, f := range fields {
			errs = append(errs, field.Invalid(field.NewPath(f), "", "field is immutable"))
		}
		return apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "nginx-demo", errs)
	}
	for name, tc := range map[string]struct {
		refused error
		want    bool
	}{
		"the selector":   {refused("spec.selector"), true},
		"something else": {refused("spec.replicas"), false},
		"both":           {refused("spec.selector", "spec.replicas"), false},
	} {
		t.Run(name, func(t *testing.T) {
			a := sample()
			in, ok := deployment(a, Observed{}, template(a, nil, config.Default())).Fallback(tc.refused)
			if ok != tc.want {
				t.Fatalf("falls back: %v, want %v", ok, tc.want)
			}
			raw, err := in.Object(a, ownerKind)
			if err != nil {
				t.Fatal(err)
			}
			d := &appsv1.Deployment{}
			if err := json.Unmarshal(raw, d); err != nil {
				t.Fatal(err)
			}
			if !isArticles(a, d) || d.Spec.Template.Labels[kindLabel] != a.Name {
				t.Errorf("selector %v, pod labels %v", d.Spec.Selector, d.Spec.Template.Labels)
			}
			// The next reconcile must produce the same intent, or it would write
			// again.
			again, err := deployment(a, Observed{Observed: rollout.Observed{Deployment: d}}, template(a, nil, config.Default())).Object(a, ownerKind)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(raw), string(again)); diff != "" {
				t.Errorf("the next reconcile (-fallback +next):\n%s", diff)
			}
		})
	}
}

// refusals returns the violations of a Pod Security Standard, in its latest
// version, by a pod.
func refusals(t *testing.T, level api.Level, pod corev1.PodTemplateSpec) string {
	t.Helper()
	e, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := policy.AggregateCheckResults(e.EvaluatePod(
		api.LevelVersion{Level: level, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec))
	return r.ForbiddenDetail()
}

func TestDesired_PodsMeetTheirSecurityStandard(t *testing.T) {
	restricted := 0
	for name, in := range cases(t) {
		t.Run(name, func(t *testing.T) {
			a, o := in()
			level := api.LevelBaseline
			if s := a.Spec.Security; s != nil && s.Profile == common.SecurityRestricted {
				level = api.LevelRestricted
				restricted++
			}
			d, _ := typed(t, a, o)
			if got := refusals(t, level, d.Spec.Template); got != "" {
				t.Errorf("refused: %s", got)
			}
			// If the profile is the stricter one, the pod complies with the
			// stricter standard, regardless of the other fields.
			if a.Spec.Security == nil {
				a.Spec.Security = &common.Security{}
			}
			a.Spec.Security.Profile = common.SecurityRestricted
			d, _ = typed(t, a, Observed{Offline: true})
			if got := refusals(t, api.LevelRestricted, d.Spec.Template); got != "" {
				t.Errorf("refused with profile Restricted: %s", got)
			}
		})
	}
	if restricted == 0 {
		t.Error("no case has profile Restricted")
	}
}

// Proves that the check above can fail.
func TestPodSecurityCheck_DetectsViolations(t *testing.T) {
	for name, loosen := range map[string]func(*corev1.PodSpec){
		"privileged":         func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Privileged = new(true) },
		"the node's network": func(p *corev1.PodSpec) { p.HostNetwork = true },
		"no seccomp":         func(p *corev1.PodSpec) { p.SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined },
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := typed(t, sample(), Observed{Offline: true})
			loosen(&d.Spec.Template.Spec)
			if got := refusals(t, api.LevelBaseline, d.Spec.Template); got == "" {
				t.Error("it is accepted")
			}
		})
	}
	d, _ := typed(t, sample(), Observed{Offline: true})
	if got := refusals(t, api.LevelRestricted, d.Spec.Template); got == "" {
		t.Error("restricted accepts the profile Baseline")
	}
}

// An image runs as the user that it names, and can write everywhere.
func TestDesired_KeepsTheUserOfTheImage(t *testing.T) {
	d, _ := typed(t, sample(), Observed{Offline: true})
	pod, c := d.Spec.Template.Spec.SecurityContext, d.Spec.Template.Spec.Containers[0].SecurityContext
	if pod.RunAsNonRoot != nil || pod.RunAsUser != nil || c.ReadOnlyRootFilesystem != nil || c.AllowPrivilegeEscalation != nil || c.Capabilities != nil {
		t.Errorf("pod %+v, container %+v", pod, c)
	}
}

func sample() *demoapplicationv1.DemoApplication {
	return &demoapplicationv1.DemoApplication{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nginx-demo", UID: "11111111-2222-3333-4444-555555555555", Generation: 2},
		Spec: demoapplicationv1.DemoApplicationSpec{
			Image: "nginx:latest", Replica: new(int32(2)),
			Ports: []demoapplicationv1.Port{{Port: 80, TargetPort: new(intstr.FromInt32(80)), NodePort: new(int32(30002))}},
		},
	}
}

// typed returns the children as decoded by the API server. The Service is empty if
// there is none.
func typed(t *testing.T, a *demoapplicationv1.DemoApplication, o Observed) (*appsv1.Deployment, *corev1.Service) {
	t.Helper()
	d, s := &appsv1.Deployment{}, &corev1.Service{}
	decode(t, a, o, map[string]any{"Deployment": d, "Service": s})
	return d, s
}

// decode decodes the children of some kinds as the API server does.
func decode(t *testing.T, a *demoapplicationv1.DemoApplication, o Observed, into map[string]any) {
	t.Helper()
	for _, in := range planned(t, a, o).Apply {
		if into[in.Kind] == nil {
			continue
		}
		raw, err := in.Object(a, ownerKind)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(raw, into[in.Kind]); err != nil {
			t.Fatal(err)
		}
	}
}

// Fields that do not affect pods do not create a revision, and the others do.
func TestInputs_ContainOnlyFieldsThatAffectPods(t *testing.T) {
	hash := func(a *demoapplicationv1.DemoApplication, sources map[string]configsource.Snapshot) string {
		raw, err := json.Marshal(inputs(a, sources))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for name, tc := range map[string]struct {
		spec   string
		change bool
	}{
		"autoscaling":           {`autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 50}`, false},
		"expose":                {`expose: {type: Ingress, hosts: [a.b]}`, false},
		"a budget":              {`podDisruptionBudget: {maxUnavailable: 1}`, false},
		"a network policy":      {`networkPolicy: {preset: Isolated}`, false},
		"the Service":           {`service: {sessionAffinity: ClientIP}`, false},
		"how it rolls out":      {`rollout: {maxSurge: 1, onFailure: Halt, restartOnConfigChange: true}`, false},
		"paused":                {`paused: true`, false},
		"monitoring that names": {`monitoring: {enabled: true}`, true},
		"monitoring, off":       {`monitoring: {interval: 10s}`, false},
		"a restart":             {`rollout: {restartedAt: "2026-01-01T00:00:00Z"}`, true},
		"env":                   {`env: [{name: A, value: b}]`, true},
		"args":                  {`args: [a]`, true},
		"resources":             {`resources: {limits: {cpu: 1}}`, true},
		"the pod":               {`pod: {labels: {a: b}}`, true},
		"security":              {`security: {profile: Restricted}`, true},
		"a command before it":   {`rollout: {before: {command: [migrate]}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := sample(), sample()
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &b.Spec); err != nil {
				t.Fatal(err)
			}
			if changed := hash(a, nil) != hash(b, nil); changed != tc.change {
				t.Errorf("a change: %v, want %v: %s", changed, tc.change, hash(b, nil))
			}
			same := cmp.Diff(template(a, nil, config.Default()), template(b, nil, config.Default())) == ""
			if !tc.change && !same {
				t.Error("the template changes without a revision")
			}
		})
	}
	// A port that already has a name is scraped by that name.
	a := sample()
	a.Spec.Ports[0].TargetPort = new(intstr.FromString("web"))
	b := a.DeepCopy()
	b.Spec.Monitoring = &common.Monitoring{Enabled: true}
	if hash(a, nil) != hash(b, nil) {
		t.Error("monitoring makes a revision that is the same")
	}
	if hash(a, nil) == hash(a, map[string]configsource.Snapshot{"app": {Name: "x"}}) {
		t.Error("another content of a ConfigMap makes no revision")
	}
	// The inputs of objects from before these fields were added are unchanged.
	if got := hash(sample(), nil); got != `{"image":"nginx:latest","ports":[{"port":80,"targetPort":80}]}` {
		t.Errorf("inputs %s", got)
	}
}

func TestDesired_KeepsTheDeploymentIfAReferenceIsMissing(t *testing.T) {
	a := sample()
	a.Spec.Rollout = &demoapplicationv1.Rollout{Rollout: common.Rollout{RestartOnConfigChange: new(true)}}
	a.Spec.EnvFrom = []common.EnvFromSource{{ConfigMapRef: &common.OptionalReference{Name: "app"}}}
	o := Observed{Observed: rollout.Observed{Deployment: &appsv1.Deployment{}}, Snapshots: []*corev1.ConfigMap{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nginx-demo-0123456789abcdef", Annotations: map[string]string{naming.AnnotationSource: "app@1/1"}}},
	}}
	kinds := func() string {
		var all []string
		plan, err := desired(a, o, platform)
		for _, in := range plan.Apply {
			all = append(all, in.Kind)
		}
		for range plan.Prune {
			all = append(all, "prune")
		}
		if err != nil {
			all = append(all, err.Error())
		}
		return strings.Join(all, " ")
	}
	if got, want := kinds(), `ConfigMap Service PodDisruptionBudget ConfigMap "app" (spec.envFrom[0]) does not exist in this namespace. Create it, or refer to another one.`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	a.DeletionTimestamp = new(metav1.Now())
	if got, want := kinds(), "ConfigMap Deployment Service PodDisruptionBudget"; got != want {
		t.Errorf("while it is being deleted: got %s, want %s", got, want)
	}
}

func TestDesired_StartsAnAutoscaledDeploymentAtItsLastScale(t *testing.T) {
	for name, tc := range map[string]struct{ last, want int32 }{
		"a first one":        {0, 20},
		"one under load":     {35, 35},
		"one with its surge": {60, 50},
	} {
		t.Run(name, func(t *testing.T) {
			a := sample()
			a.Spec.Replica = nil
			a.Spec.Autoscaling = &common.Autoscaling{MinReplicas: new(int32(20)), MaxReplicas: 50}
			a.Status.Replicas = tc.last
			if d, _ := typed(t, a, Observed{Offline: true}); d.Spec.Replicas == nil || *d.Spec.Replicas != tc.want {
				t.Errorf("the Deployment is created with %v replicas (nil is one), want %d", d.Spec.Replicas, tc.want)
			}
		})
	}
}
