package webserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/resources/monitoring"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

// ownerKind is what the reconcile loop passes for every WebServer.
var ownerKind = metav1.GroupVersionKind{Group: "my.domain", Version: "v1", Kind: "WebServer"}

// cases reads the cases in testdata. in.yaml contains the WebServer with its
// status, followed by the live objects: the Service, and ConfigMaps that the object
// refers to.
func cases(t *testing.T) map[string]func() (*webserverv1.WebServer, Observed) {
	t.Helper()
	all := map[string]func() (*webserverv1.WebServer, Observed){}
	for name, docs := range golden.Cases(t) {
		w := &webserverv1.WebServer{}
		if err := yaml.UnmarshalStrict([]byte(docs[0]), w); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = func() (*webserverv1.WebServer, Observed) {
			return w.DeepCopy(), live(t, docs[1:])
		}
	}
	return all
}

// live returns the observed state with the objects in these documents.
func live(t *testing.T, docs []string) Observed {
	t.Helper()
	var o Observed
	for _, doc := range docs {
		o = see(t, o, []byte(doc))
	}
	return o
}

// see adds an object, in JSON or YAML, to the observed state. A ConfigMap without
// an owner is one of the user's.
func see(t *testing.T, o Observed, doc []byte) Observed {
	t.Helper()
	var is metav1.PartialObjectMetadata
	if err := yaml.Unmarshal(doc, &is); err != nil {
		t.Fatal(err)
	}
	switch is.Kind {
	case "Deployment":
		o.Deployment = decode[appsv1.Deployment](t, doc)
	case "Service":
		o.Service = decode[corev1.Service](t, doc)
	case "ControllerRevision":
		o.Revisions = append(slices.DeleteFunc(slices.Clone(o.Revisions), func(r *appsv1.ControllerRevision) bool { return r.Name == is.Name }), decode[appsv1.ControllerRevision](t, doc))
	case "HorizontalPodAutoscaler":
		o.Autoscaler = decode[autoscalingv2.HorizontalPodAutoscaler](t, doc)
	case "PodDisruptionBudget":
		o.Budget = decode[policyv1.PodDisruptionBudget](t, doc)
	case "NetworkPolicy":
		o.NetworkPolicy = decode[networkingv1.NetworkPolicy](t, doc)
	case "Ingress":
		o.Ingress = decode[networkingv1.Ingress](t, doc)
	case "HTTPRoute":
		o.Route = decode[gatewayv1.HTTPRoute](t, doc)
	case "PodMonitor":
		o.PodMonitor = decode[monitoring.PodMonitor](t, doc)
	case "ConfigMap":
		c := decode[corev1.ConfigMap](t, doc)
		if len(is.OwnerReferences) > 0 {
			o.Snapshots = append(slices.DeleteFunc(slices.Clone(o.Snapshots), func(r *corev1.ConfigMap) bool { return r.Name == is.Name }), c)
			break
		}
		o.Sources = maps.Clone(o.Sources)
		if o.Sources == nil {
			o.Sources = map[string]configsource.Source{}
		}
		o.Sources[c.Name] = configsource.Source{Found: true, Version: "u/1", Content: c}
	default:
		t.Fatalf("what is a %q?", is.Kind)
	}
	return o
}

func decode[T any](t *testing.T, doc []byte) *T {
	t.Helper()
	into := new(T)
	if err := yaml.UnmarshalStrict(doc, into); err != nil {
		t.Fatal(err)
	}
	return into
}

// platform is the platform configuration of these tests.
var platform = judging(config.Default())

// judging adds an image that judges canaries.
func judging(p config.Platform) config.Platform {
	p.Pods.JudgeImage = "platform-operator:dev"
	return p
}

// children returns the intents of the children that can be created.
func children(t *testing.T, w *webserverv1.WebServer, o Observed, platform config.Platform) []apply.Intent {
	t.Helper()
	plan, err := desired(w, o, platform)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Prune) != 0 {
		t.Fatalf("%d children are to go", len(plan.Prune))
	}
	return plan.Apply
}

// printed returns the children as they would be sent.
func printed(t *testing.T, w *webserverv1.WebServer, o Observed) []byte {
	t.Helper()
	return golden.Children(t, w, ownerKind, children(t, w, o, platform), nil)
}

func TestDesired(t *testing.T) {
	golden.CompareCases(t, "seed", cases(t), func(t *testing.T, in func() (*webserverv1.WebServer, Observed)) []byte {
		t.Helper()
		w, o := in()
		return printed(t, w, o)
	})
}

func TestDesired_IsDeterministic(t *testing.T) {
	for name, in := range cases(t) {
		t.Run(name, func(t *testing.T) {
			w, o := in()
			first := printed(t, w, o)
			if diff := cmp.Diff(string(first), string(printed(t, w, o))); diff != "" {
				t.Errorf("two passes over the same differ:\n%s", diff)
			}
			before, seen := in()
			if diff := cmp.Diff(before, w); diff != "" {
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
			w, o := in()
			for _, c := range sent(t, w, o, platform) {
				owners := []metav1.OwnerReference{{
					APIVersion: "my.domain/v1", Kind: "WebServer", Name: w.Name, UID: w.UID,
					Controller: new(true), BlockOwnerDeletion: new(true),
				}}
				if w.GetDeletionPolicy() == common.DeletionPolicyOrphan && c.Kind != "ControllerRevision" {
					owners = nil
				}
				if diff := cmp.Diff(owners, c.OwnerReferences); diff != "" {
					t.Errorf("%s: owner (-want +got):\n%s", c.Kind, diff)
				}
				if got := c.Labels[naming.LabelManagedBy]; got != naming.ManagedBy {
					t.Errorf("%s: label %s is %q: the cache would not see the child", c.Kind, naming.LabelManagedBy, got)
				}
				if got := c.Annotations[naming.AnnotationOwner]; got != string(w.UID) || got == "" {
					t.Errorf("%s: annotation %s is %q, want %q", c.Kind, naming.AnnotationOwner, got, w.UID)
				}
				if c.Annotations[naming.AnnotationApplied] == "" {
					t.Errorf("%s has no hash", c.Kind)
				}
				if c.Namespace != w.Namespace {
					t.Errorf("%s is in namespace %q, want %q", c.Kind, c.Namespace, w.Namespace)
				}
			}
		})
	}
}

// These fields are visible to users of the legacy operator, or select the pods of
// an adopted installation, and must never change.
func TestDesired_KeepsTheNamesOfTheLegacyOperator(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", "webserver.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w := &webserverv1.WebServer{}
	if err := yaml.UnmarshalStrict(raw, w); err != nil {
		t.Fatal(err)
	}
	w.Namespace = "default"
	d, s := typed(t, w, Observed{})

	pods := map[string]string{"app": "webserver", "webserver_cr": "webserver-sample"}
	ours := map[string]string{naming.LabelManagedBy: naming.ManagedBy}
	withPods := map[string]string{"app": "webserver", "webserver_cr": "webserver-sample", naming.LabelManagedBy: naming.ManagedBy}
	quarter := intstr.FromString("25%")

	for what, is := range map[string]struct{ want, got any }{
		"Deployment's name":   {"webserver-sample", d.Name},
		"Deployment's labels": {ours, d.Labels},
		"replicas":            {int32(3), *d.Spec.Replicas},
		"selector":            {&metav1.LabelSelector{MatchLabels: pods}, d.Spec.Selector},
		"pod labels":          {withPods, d.Spec.Template.Labels},
		"strategy": {appsv1.DeploymentStrategy{
			Type:          appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &quarter, MaxUnavailable: &quarter},
		}, d.Spec.Strategy},
		"number of containers": {1, len(d.Spec.Template.Spec.Containers)},
		"container's name":     {"webserver", d.Spec.Template.Spec.Containers[0].Name},
		"image":                {"nginx:1.23.1", d.Spec.Template.Spec.Containers[0].Image},
		"Service's name":       {"webserver-sample-service", s.Name},
		"Service's labels":     {withPods, s.Labels},
		"Service's selector":   {pods, s.Spec.Selector},
		"Service's type":       {corev1.ServiceTypeNodePort, s.Spec.Type},
		"Service's ports": {[]corev1.ServicePort{
			// That of the legacy operator has no name, and none gets one.
			{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(80), NodePort: 30010},
		}, s.Spec.Ports},
	} {
		if diff := cmp.Diff(is.want, is.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func TestDesired_NodePort(t *testing.T) {
	type (
		spec   = webserverv1.ServiceSpec
		status = webserverv1.ServiceStatus
	)
	live := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{NodePort: 33333}}}}
	for name, tc := range map[string]struct {
		spec   *spec
		status *status
		live   *corev1.Service
		want   int32
		given  bool
	}{
		"the platform's preference":               {want: 30010},
		"the user's":                              {spec: &spec{NodePort: new(int32(31000))}, want: 31000, given: true},
		"the user's before what was learned":      {spec: &spec{NodePort: new(int32(31000))}, status: &status{NodePort: 32222}, live: live, want: 31000, given: true},
		"what was learned before the preference":  {status: &status{NodePort: 32222}, want: 32222},
		"what was learned before the live one":    {status: &status{NodePort: 32222}, live: live, want: 32222},
		"the live one where a crash lost it":      {live: live, want: 33333},
		"the live one where the status says none": {status: &status{Type: corev1.ServiceTypeClusterIP, DefaultType: corev1.ServiceTypeNodePort}, live: live, want: 33333},
		"none for ClusterIP":                      {spec: &spec{Type: corev1.ServiceTypeClusterIP}, status: &status{NodePort: 32222}, live: live},
		"no preference for a load balancer":       {spec: &spec{Type: corev1.ServiceTypeLoadBalancer}},
		"a load balancer keeps what it has":       {spec: &spec{Type: corev1.ServiceTypeLoadBalancer}, live: live, want: 33333},
		"a load balancer with the user's":         {spec: &spec{Type: corev1.ServiceTypeLoadBalancer, NodePort: new(int32(31000))}, want: 31000, given: true},
		"a live Service without ports":            {live: &corev1.Service{}, want: 30010},
	} {
		t.Run(name, func(t *testing.T) {
			w := &webserverv1.WebServer{Spec: webserverv1.WebServerSpec{Service: tc.spec}, Status: webserverv1.WebServerStatus{Service: tc.status}}
			platform := config.Default().WebServer
			port, from := nodePort(w, Observed{Service: tc.live}, platform, serviceType(w, platform))
			if port != tc.want || (from == asked) != tc.given {
				t.Errorf("got %d, given by the user: %v; want %d, %v", port, from == asked, tc.want, tc.given)
			}
		})
	}
}

// Learning which node port was allocated is not a reason to write.
func TestDesired_HashIgnoresAllocatedNodePorts(t *testing.T) {
	hash := func(change func(*webserverv1.WebServer)) (string, int32) {
		w := sample()
		change(w)
		_, s := typed(t, w, Observed{})
		return s.Annotations[naming.AnnotationApplied], s.Spec.Ports[0].NodePort
	}
	preferred, _ := hash(func(*webserverv1.WebServer) {})
	learned, port := hash(func(w *webserverv1.WebServer) { w.Status.Service = &webserverv1.ServiceStatus{NodePort: 32222} })
	if port != 32222 {
		t.Errorf("node port %d is stated, want what was learned", port)
	}
	if learned != preferred {
		t.Error("the hash changed with the status: every first reconcile would write twice")
	}
	given, _ := hash(func(w *webserverv1.WebServer) {
		w.Spec.Service = &webserverv1.ServiceSpec{NodePort: new(int32(32222))}
	})
	if given == learned {
		t.Error("the hash did not change with the spec: the user's port might not be asked for")
	}
}

func TestDesired_FallsBackOnlyForUnrequestedNodePorts(t *testing.T) {
	refused := func(path *field.Path) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "web-service", field.ErrorList{field.Invalid(path, 30010, "taken")})
	}
	ports := field.NewPath("spec", "ports").Index(0)
	taken := refused(ports.Child("nodePort"))
	for name, tc := range map[string]struct {
		spec    *webserverv1.ServiceSpec
		refused error
		want    bool
	}{
		"the preference is taken":  {nil, taken, true},
		"something else is wrong":  {nil, refused(ports.Child("port")), false},
		"the user's port is taken": {&webserverv1.ServiceSpec{NodePort: new(int32(30010))}, taken, false},
		"no port is asked for":     {&webserverv1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}, taken, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			w.Spec.Service = tc.spec
			in := service(w, Observed{}, platform.WebServer, served{http: intstr.FromInt32(80)})
			got := false
			if in.Fallback != nil {
				var other apply.Intent
				if other, got = in.Fallback(tc.refused); got {
					raw, err := other.Object(w, ownerKind)
					if err != nil {
						t.Fatal(err)
					}
					if bytes.Contains(raw, []byte("nodePort")) {
						t.Errorf("the fallback states a node port: %s", raw)
					}
				}
			}
			if got != tc.want {
				t.Errorf("falls back: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestDesired_ServiceTypeOfThePlatform(t *testing.T) {
	for name, tc := range map[string]struct {
		platform config.WebServer
		want     corev1.ServiceSpec
	}{
		"cluster only":      {config.WebServer{ServiceType: corev1.ServiceTypeClusterIP, NodePort: 30010}, corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}},
		"load balancer":     {config.WebServer{ServiceType: corev1.ServiceTypeLoadBalancer, NodePort: 30010}, corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}},
		"any node port":     {config.WebServer{ServiceType: corev1.ServiceTypeNodePort}, corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort}},
		"another node port": {config.WebServer{ServiceType: corev1.ServiceTypeNodePort, NodePort: 31111}, corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{NodePort: 31111}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var want int32
			if len(tc.want.Ports) > 0 {
				want = tc.want.Ports[0].NodePort
			}
			w := sample()
			raw, err := service(w, Observed{}, tc.platform, served{http: intstr.FromInt32(80)}).Object(w, ownerKind)
			if err != nil {
				t.Fatal(err)
			}
			s := &corev1.Service{}
			if err := json.Unmarshal(raw, s); err != nil {
				t.Fatal(err)
			}
			if s.Spec.Type != tc.want.Type || s.Spec.Ports[0].NodePort != want {
				t.Errorf("got %s with node port %d, want %s with %d", s.Spec.Type, s.Spec.Ports[0].NodePort, tc.want.Type, want)
			}
		})
	}
}

// An object whose spec sets no type keeps the one that it got, and its node port, until
// its spec sets one.
func TestDesired_KeepsTheDefaultServiceType(t *testing.T) {
	production := config.WebServer{ServiceType: corev1.ServiceTypeClusterIP}
	for name, tc := range map[string]struct {
		spec     *webserverv1.ServiceSpec
		recorded corev1.ServiceType // in the status
		edited   bool               // since the status was written
		want     corev1.ServiceType
	}{
		"recorded":                            {nil, corev1.ServiceTypeNodePort, false, corev1.ServiceTypeNodePort},
		"recorded, and another field changes": {nil, corev1.ServiceTypeNodePort, true, corev1.ServiceTypeNodePort},
		"by a version that did not record it": {nil, "", false, corev1.ServiceTypeNodePort},
		"the type was removed from the spec":  {nil, "", true, corev1.ServiceTypeClusterIP},
		"the spec sets another type":          {&webserverv1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}, corev1.ServiceTypeNodePort, true, corev1.ServiceTypeClusterIP},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			w.Spec.Service = tc.spec
			w.Status.ObservedGeneration = w.Generation
			if tc.edited {
				w.Generation++
			}
			w.Status.Service = &webserverv1.ServiceStatus{Type: corev1.ServiceTypeNodePort, DefaultType: tc.recorded, NodePort: 30399}
			raw, err := service(w, Observed{}, newObject(w, Observed{}, config.Platform{WebServer: production}).platform.WebServer, served{http: intstr.FromInt32(80)}).Object(w, ownerKind)
			if err != nil {
				t.Fatal(err)
			}
			s := &corev1.Service{}
			if err := json.Unmarshal(raw, s); err != nil {
				t.Fatal(err)
			}
			port := int32(0)
			if tc.want == corev1.ServiceTypeNodePort {
				port = 30399
			}
			if s.Spec.Type != tc.want || s.Spec.Ports[0].NodePort != port {
				t.Errorf("got %s with node port %d, want %s with %d", s.Spec.Type, s.Spec.Ports[0].NodePort, tc.want, port)
			}
		})
	}
}

// A proxy of the cluster finds the endpoints of a port by its name: it refuses requests while
// only the Service has a new one.
func TestService_KeepsTheNameOfItsPort(t *testing.T) {
	t.Parallel()
	live := func(names ...string) *corev1.Service {
		s := &corev1.Service{}
		for _, n := range names {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: n})
		}
		return s
	}
	for name, tc := range map[string]struct {
		live  *corev1.Service
		https bool
		want  string
	}{
		"a new Service":                               {nil, false, "http"},
		"before TLS is added":                         {live("http"), false, "http"},
		"TLS is removed":                              {live("http", "https"), false, "http"},
		"it has no name, and needs none":              {live(""), false, ""},
		"it has no name, and needs one next to https": {live(""), true, "http"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := served{http: intstr.FromInt32(80), https: tc.https}
			check := func(in apply.Intent) {
				w, s := sample(), &corev1.Service{}
				raw, err := in.Object(w, ownerKind)
				if err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(raw, s); err != nil {
					t.Fatal(err)
				}
				if got := s.Spec.Ports[0].Name; got != tc.want {
					t.Errorf("got %q, want %q", got, tc.want)
				}
			}
			check(service(sample(), Observed{Service: tc.live}, platform.WebServer, is))
			if tc.live != nil { // that of the legacy operator is not in the cache
				check(service(sample(), Observed{}, platform.WebServer, is).IfExists(tc.live))
			}
		})
	}
}

// Kubernetes gives both ports of one number the same node port only if the Service is new.
func TestService_HTTP3HasTheNodePortOfHTTPS(t *testing.T) {
	live := func(kind corev1.ServiceType, https ...int32) *corev1.Service {
		s := &corev1.Service{Spec: corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
		for _, p := range https {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "https", Port: 443, NodePort: p})
		}
		return s
	}
	const node, balanced = corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer
	for name, tc := range map[string]struct {
		kind corev1.ServiceType
		live *corev1.Service
		want []int32 // node ports of the number 443
	}{
		"a new Service":                  {node, nil, []int32{0, 0}},
		"that of https is not known yet": {node, live(node), []int32{0}},
		"that of https is known":         {node, live(node, 32443), []int32{32443, 32443}},
		"another type":                   {node, live(corev1.ServiceTypeClusterIP, 0), []int32{0}},
		"without node ports":             {corev1.ServiceTypeClusterIP, live(node), []int32{0, 0}},
		"a load balancer without them":   {balanced, live(balanced, 0), []int32{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			w.Spec.Service = &webserverv1.ServiceSpec{Type: tc.kind}
			raw, err := service(w, Observed{Service: tc.live}, platform.WebServer, served{http: intstr.FromInt32(80), https: true, http3: true}).Object(w, ownerKind)
			if err != nil {
				t.Fatal(err)
			}
			s := &corev1.Service{}
			if err := json.Unmarshal(raw, s); err != nil {
				t.Fatal(err)
			}
			var got []int32
			for _, p := range s.Spec.Ports {
				if p.Port == 443 {
					got = append(got, p.NodePort)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The tutorial of the legacy operator shows these log lines.
func TestLog_LinesOfAnEdit(t *testing.T) {
	live := func(replicas *int32, images ...string) *appsv1.Deployment {
		d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: replicas}}
		for _, i := range images {
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Image: i})
		}
		return d
	}
	const scaled, image = "Deployment spec.replicas change", "Deployment spec.template.spec.container[0].image change"
	for name, tc := range map[string]struct {
		live *appsv1.Deployment
		want []string
	}{
		"no Deployment yet":   {nil, nil},
		"nothing changes":     {live(new(int32(3)), "nginx:1.23.1"), nil},
		"scaled":              {live(new(int32(4)), "nginx:1.23.1"), []string{scaled + " [from 4 to 3]"}},
		"another image":       {live(new(int32(3)), "nginx:1.23.0"), []string{image + " [from nginx:1.23.0 to nginx:1.23.1]"}},
		"both":                {live(new(int32(4)), "nginx:1.23.0"), []string{scaled + " [from 4 to 3]", image + " [from nginx:1.23.0 to nginx:1.23.1]"}},
		"no container at all": {live(new(int32(3))), nil},
		"replicas not known":  {live(nil, "nginx:1.23.1"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			var got []string
			for _, c := range deployment(w, Observed{Observed: rollout.Observed{Deployment: tc.live}}, template(w, material{}, platform)).Changes {
				got = append(got, fmt.Sprintf("%s %v", c.Message, c.KeysAndValues))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func sample() *webserverv1.WebServer {
	return &webserverv1.WebServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "webserver-sample", UID: "11111111-2222-3333-4444-555555555555", Generation: 2},
		Spec:       webserverv1.WebServerSpec{Image: "nginx:1.23.1", Replicas: new(int32(3))},
	}
}

// sent returns the metadata of the children as they would be sent.
func sent(t *testing.T, w *webserverv1.WebServer, o Observed, platform config.Platform) []metav1.PartialObjectMetadata {
	t.Helper()
	var all []metav1.PartialObjectMetadata
	for _, in := range children(t, w, o, platform) {
		raw, err := in.Object(w, ownerKind)
		if err != nil {
			t.Fatal(err)
		}
		var m metav1.PartialObjectMetadata
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// typed returns the Deployment and the Service as decoded by the API server.
func typed(t *testing.T, w *webserverv1.WebServer, o Observed) (*appsv1.Deployment, *corev1.Service) {
	t.Helper()
	d, s := &appsv1.Deployment{}, &corev1.Service{}
	found := 0
	for _, in := range children(t, w, o, platform) {
		var into any
		switch in.Kind {
		case "Deployment":
			into = d
		case "Service":
			into = s
		default:
			continue
		}
		found++
		raw, err := in.Object(w, ownerKind)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(raw, into); err != nil {
			t.Fatal(err)
		}
	}
	if found != 2 {
		t.Fatalf("%d children, want a Deployment and a Service", found)
	}
	return d, s
}

func TestTemplate_StatesThePullPolicyOfEveryImage(t *testing.T) {
	for name, in := range cases(t) {
		t.Run(name, func(t *testing.T) {
			w, o := in()
			d, _ := typed(t, w, o)
			pod := d.Spec.Template.Spec
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				if c.ImagePullPolicy == "" {
					t.Errorf("container %s keeps the policy of an earlier image", c.Name)
				}
			}
			for _, v := range pod.Volumes {
				if v.Image != nil && v.Image.PullPolicy == "" {
					t.Errorf("volume %s keeps the policy of an earlier image", v.Name)
				}
			}
		})
	}
}

func TestDesired_StartsAnAutoscaledDeploymentAtItsLastScale(t *testing.T) {
	for name, tc := range map[string]struct{ last, want int32 }{
		"a first one":        {0, 20},
		"one under load":     {35, 35},
		"one with its surge": {60, 50},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			w.Spec.Replicas = nil
			w.Spec.Autoscaling = &common.Autoscaling{MinReplicas: new(int32(20)), MaxReplicas: 50}
			w.Status.Replicas = tc.last
			if d, _ := typed(t, w, Observed{}); d.Spec.Replicas == nil || *d.Spec.Replicas != tc.want {
				t.Errorf("the Deployment is created with %v replicas (nil is one), want %d", d.Spec.Replicas, tc.want)
			}
		})
	}
}

// Kubernetes refuses a pod with two volumes of one name.
func TestTemplate_VolumeNamesAreUnique(t *testing.T) {
	for name, in := range cases(t) {
		t.Run(name, func(t *testing.T) {
			w, o := in()
			if w.Spec.Pod == nil {
				w.Spec.Pod = &common.Pod{}
			}
			for _, v := range []string{"cache", "run", "tmp", "content", "tls", "config", "config-test"} {
				if slices.ContainsFunc(w.Spec.Pod.Volumes, func(u common.Volume) bool { return u.Name == v }) {
					continue
				}
				w.Spec.Pod.Volumes = append(w.Spec.Pod.Volumes, common.Volume{Name: v, EmptyDir: &common.EmptyDirVolume{}})
				w.Spec.Pod.VolumeMounts = append(w.Spec.Pod.VolumeMounts, common.VolumeMount{Name: v, MountPath: "/mine/" + v})
			}
			m := kind(platform).Model(w, o)
			if m.Decision.Template == nil {
				t.Skip("nothing is decided")
			}
			names := map[string]bool{}
			for _, v := range m.Decision.Template.Spec.Volumes {
				if names[*v.Name] {
					t.Errorf("two volumes are called %q", *v.Name)
				}
				names[*v.Name] = true
			}
		})
	}
}
