//go:build envtest

package webserver

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/resources/monitoring"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// env is the API server of this package's tests.
var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, "../..", func(s *runtime.Scheme) error {
		return errors.Join(clientgoscheme.AddToScheme(s), webserverv1.AddToScheme(s), gatewayv1.Install(s), monitoring.AddToScheme(s))
	}, func(e *testkit.Env) { env = e })
}

// sideBySide is a platform whose objects do not request the same node port, because
// node ports are cluster-wide and tests run in parallel.
func sideBySide() config.Platform {
	p := config.Default()
	p.WebServer.NodePort = 0
	return p
}

func subject() testkit.Subject { return subjectWith(sideBySide()) }

func subjectWith(platform config.Platform) testkit.Subject {
	return testkit.SubjectOf(func() converge.AnyKind { return Kind(platform) })
}

func webServer(ns, name string, change ...func(*webserverv1.WebServer)) *webserverv1.WebServer {
	w := &webserverv1.WebServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       webserverv1.WebServerSpec{Image: "nginx:1.23.1", Replicas: new(int32(3))},
	}
	for _, c := range change {
		c(w)
	}
	return w
}

// configName returns the name of the generated configuration of a WebServer whose
// spec sets none.
func configName(name string) string {
	m, err := sourcesOf(webServer("", name)).resolve(Observed{})
	if err != nil {
		panic(err) // it refers to nothing
	}
	return m.config.Name
}

func specimen() testkit.KindUnderTest {
	return testkit.KindUnderTest{
		Subject:  subject(),
		Resource: "webservers",
		New:      func(ns, name string) converge.Object { return webServer(ns, name) },
		Children: func(name string) []client.Object {
			return []client.Object{
				&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}},
				&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name + "-service"}},
				&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}},
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: configName(name)}},
			}
		},
		Created: []string{"patch controllerrevisions 201"},
		Edit:    func(o converge.Object) { o.(*webserverv1.WebServer).Spec.Image = "nginx:1.23.0" },
		Edited:  []string{"patch controllerrevisions 201", "patch deployments 200"},
		Scale:   func(o converge.Object, n int32) { o.(*webserverv1.WebServer).Spec.Replicas = &n },
		Orphan:  func(o converge.Object) { o.(*webserverv1.WebServer).Spec.DeletionPolicy = common.DeletionPolicyOrphan },
		Serves:  serves,
		Stated: func(o converge.Object) [][]byte {
			var all [][]byte
			gvk := metav1.GroupVersionKind(webserverv1.GroupVersion.WithKind(webserverv1.Kind))
			plan, err := desired(o.(*webserverv1.WebServer), Observed{}, sideBySide())
			if err != nil {
				panic(err) // the operator has just sent it
			}
			for _, in := range plan.Apply {
				if in.Kind == "PodMonitor" {
					continue // which this API server does not serve
				}
				if in.IfExists != nil {
					in = in.IfExists(nil)
				}
				raw, err := in.Object(o, gvk)
				if err != nil {
					panic(err) // the operator has just sent it
				}
				all = append(all, raw)
			}
			return all
		},
		Damages: 6,
		TwoWrites: func(path string) bool {
			return slices.ContainsFunc([]string{"/spec/ports", "/spec/selector", "/spec/ingress", "/spec/podSelector", "/spec/template/spec/containers/0/ports"},
				func(p string) bool { return strings.HasPrefix(path, p) })
		},
	}
}

// furnished sets every field group that this API server supports.
func furnished(w *webserverv1.WebServer) {
	if err := yaml.UnmarshalStrict([]byte(furniture), &w.Spec); err != nil {
		panic(err)
	}
	w.Spec.Replicas = nil
}

const furniture = `
image: nginx:1.23.1
config: {inline: "location / { return 204; }"}
content: {files: {index.html: hello}}
tls: {secretRef: {name: web-tls}, http3: true}
monitoring: {enabled: true}
imagePullPolicy: IfNotPresent
imagePullSecrets: [{name: registry}]
probes: {readiness: {httpGet: {path: /ready, port: http}}, liveness: {tcpSocket: {port: 80}}}
resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
pod:
  labels: {team: shop}
  annotations: {example.com/note: hello}
  nodeSelector: {kubernetes.io/arch: amd64}
  tolerations: [{key: dedicated, operator: Exists}]
  volumes: [{name: scratch, emptyDir: {}}, {name: more, configMap: {name: more, optional: true}}]
  volumeMounts: [{name: scratch, mountPath: /var/cache/nginx}, {name: more, mountPath: /more, readOnly: true}]
security: {profile: Restricted, runAsUser: 1000}
service: {annotations: {example.com/lb: internal}, sessionAffinity: ClientIP, externalTrafficPolicy: Local}
expose: {type: Ingress, hosts: [shop.example.com], ingress: {ingressClassName: traefik, tls: {secretRef: {name: shop-tls}}}}
autoscaling: {minReplicas: 2, maxReplicas: 5, targetCPUUtilizationPercentage: 70, targetMemoryUtilizationPercentage: 80}
podDisruptionBudget: {minAvailable: 1}
networkPolicy: {preset: Isolated, from: [{namespaceSelector: {matchLabels: {team: a}}}]}
rollout: {maxSurge: 1, maxUnavailable: 0}
`

func furnishedSpecimen() testkit.KindUnderTest {
	s := specimen()
	s.New = func(ns, name string) converge.Object { return webServer(ns, name, furnished) }
	children := s.Children
	s.Children = func(name string) []client.Object {
		m, err := sourcesOf(webServer("", name, furnished)).resolve(Observed{})
		if err != nil {
			panic(err) // it refers to nothing that must exist
		}
		om := metav1.ObjectMeta{Name: name}
		all := slices.Concat(children(name)[:3], []client.Object{&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: om}, &networkingv1.NetworkPolicy{ObjectMeta: om}, &networkingv1.Ingress{ObjectMeta: om}})
		for _, c := range m.snapshots() {
			all = append(all, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: c.Name}})
		}
		return all
	}
	// The replicas with which the Deployment was created are released to the
	// autoscaler.
	s.Created = append(slices.Clone(s.Created), "patch deployments 200", "patch deployments 200")
	s.Restated = true
	s.Scale = nil // an autoscaler does
	few := s.TwoWrites
	s.TwoWrites = func(path string) bool {
		// The replicas are released once more, so that they are not lost.
		return few(path) || strings.HasSuffix(path, "~1scaled-by") || slices.ContainsFunc([]string{"/spec/template/spec/containers/1/", "/spec/template/spec/initContainers/0/"},
			func(p string) bool { return strings.HasPrefix(path, p) })
	}
	return s
}

func TestWebServer_RequestBudgetWithAllFeatures(t *testing.T) {
	t.Parallel()
	env.Budget(t, furnishedSpecimen())
}

func TestWebServer_OrphaningBudgetWithAllFeatures(t *testing.T) {
	t.Parallel()
	env.Orphaning(t, furnishedSpecimen())
}

func TestReconciler_AdoptsARestoredBackup(t *testing.T) {
	t.Parallel()
	env.Restored(t, furnishedSpecimen())
}

func TestReconciler_FollowsTheDeletionPolicy(t *testing.T) {
	t.Parallel()
	env.PolicyChanged(t, furnishedSpecimen())
}

func TestWebServer_RestoresEveryStatedFieldWithAllFeatures(t *testing.T) {
	t.Parallel()
	env.Drifting(t, furnishedSpecimen())
}

func TestWebServer_RequestBudget(t *testing.T) {
	t.Parallel()
	env.Budget(t, specimen())
}

// An object that prefers a node port that is taken causes one request that is
// refused.
func TestWebServer_RequestsATakenNodePortOncePerObject(t *testing.T) {
	t.Parallel()
	const port = 30076 // in the range that is not used for dynamic allocation
	platform := sideBySide()
	platform.WebServer.NodePort = port
	l := env.NewSandbox(t, subjectWith(platform))
	l.Create(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "first"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: port}}},
	})
	l.Start()
	freePortsAtEnd(l)
	names := []string{"a", "b", "c"}
	for _, name := range names {
		w := webServer(l.Namespace, name)
		l.Create(w)
		l.Ready(w, name)
		if p := w.Status.Service.NodePort; p == 0 || p == port {
			t.Errorf("%s has node port %d, want another one", name, p)
		}
	}
	refused := 0
	for _, r := range l.Requests() {
		if r.Resource == "services" && r.Code == http.StatusUnprocessableEntity {
			refused++
		}
	}
	if refused != len(names) {
		t.Errorf("%d requests for the port that is taken, want %d", refused, len(names))
	}
}

// A field that another client added does not keep a Service exposed that is not to be
// a load balancer any more.
func TestWebServer_RemovesAFieldThatItsNextTypeDoesNotAllow(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject())
	w := webServer(l.Namespace, "web")
	w.Spec.Service = &webserverv1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}
	l.Create(w)
	l.Start()
	l.Ready(w, "web")
	var s corev1.Service
	l.Edit(&s, "web-service", func() { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} })
	l.Edit(w, "web", func() { w.Spec.Service.Type = corev1.ServiceTypeClusterIP })
	l.Until("the Service has the type of the spec", &s, "web-service", func() bool {
		return s.Spec.Type == corev1.ServiceTypeClusterIP && len(s.Spec.LoadBalancerSourceRanges) == 0
	})
	l.Ready(w, "web")
}

// A rule that is newer than a revision holds when the revision is pinned, without
// admission too.
func TestWebServer_PinsNoRevisionThatThePlatformRefuses(t *testing.T) {
	t.Parallel()
	platform := sideBySide()
	platform.Pods.Tolerations = []string{"dedicated"}
	l := env.NewSandbox(t, subjectWith(platform))
	w := &webserverv1.WebServer{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: l.Namespace},
		Spec: webserverv1.WebServerSpec{
			Image: "nginx:1.27.4", Replicas: new(int32(1)), Rollout: &common.Rollout{},
			Pod: &common.Pod{Tolerations: []common.Toleration{{Key: "control-plane", Operator: corev1.TolerationOpExists}}},
		},
	}
	l.Create(w)
	l.Start()
	l.Ready(w, "web")
	l.Edit(w, "web", func() { w.Spec.Pod = nil })
	l.Until("the second revision serves", w, "web", func() bool {
		r := w.Status.Revisions
		return r != nil && r.LastHealthy == 2
	})
	l.Edit(w, "web", func() { w.Spec.Rollout.PinnedRevision = new(int64(1)) })
	if got := l.Stalled(w, "web", common.ReasonNotAllowed); !strings.Contains(got, `revision 1: spec.tolerations[control-plane].key "control-plane". Pin another revision, or change the spec.`) {
		t.Errorf("the message is %q", got)
	}
	var d appsv1.Deployment
	l.Get(&d, "web")
	if got := d.Spec.Template.Spec.Tolerations; slices.ContainsFunc(got, func(t corev1.Toleration) bool { return t.Key == "control-plane" }) {
		t.Errorf("the pods tolerate %v", got)
	}
}

func TestWebServer_NeverWritesUnownedObjects(t *testing.T) {
	t.Parallel()
	env.Unowned(t, specimen(),
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "theirs"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "theirs"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "theirs:1"}}},
			},
		}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web-service"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 5432}}}},
		&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "theirs"}}}},
	)
}

func TestWebServer_ReconcilesOnlyWatchedNamespaces(t *testing.T) {
	t.Parallel()
	env.Namespaces(t, specimen())
}
