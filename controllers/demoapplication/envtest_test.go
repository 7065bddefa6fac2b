//go:build envtest

package demoapplication

import (
	"errors"
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
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	demoapplicationv1beta1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1beta1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/resources/monitoring"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// env is the API server of this package's tests.
var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, "../..", func(s *runtime.Scheme) error {
		return errors.Join(clientgoscheme.AddToScheme(s), demoapplicationv1.AddToScheme(s), demoapplicationv1beta1.AddToScheme(s),
			gatewayv1.Install(s), monitoring.AddToScheme(s))
	}, func(e *testkit.Env) { env = e })
}

func subject() testkit.Subject { return subjectWith(platform) }

func subjectWith(platform config.Platform) testkit.Subject {
	return testkit.SubjectOf(func() converge.AnyKind { return Kind(platform) })
}

// application has no nodePort, because node ports are cluster-wide and tests run in
// parallel.
func application(ns, name string, change ...func(*demoapplicationv1.DemoApplication)) *demoapplicationv1.DemoApplication {
	a := &demoapplicationv1.DemoApplication{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: demoapplicationv1.DemoApplicationSpec{
			Image: "nginx:1.23.1", Replica: new(int32(2)),
			Ports: []demoapplicationv1.Port{
				{Name: "http", Port: 80, TargetPort: new(intstr.FromInt32(8080)), AppProtocol: new("http")},
				{Name: "metrics", Port: 9090, TargetPort: new(intstr.FromString("metrics"))},
			},
		},
	}
	for _, c := range change {
		c(a)
	}
	return a
}

// much is an application with every auxiliary resource that this API server
// supports.
func much(ns, name string) *demoapplicationv1.DemoApplication {
	return application(ns, name, func(a *demoapplicationv1.DemoApplication) {
		if err := yaml.UnmarshalStrict([]byte(muchOfIt), &a.Spec); err != nil {
			panic(err)
		}
		a.Spec.Replica = nil
	})
}

const muchOfIt = `
image: nginx:1.23.1
env: [{name: MODE, value: prod}, {name: LEVEL, valueFrom: {configMapKeyRef: {name: app, key: level, optional: true}}}]
envFrom: [{prefix: P_, configMapRef: {name: app, optional: true}}]
args: [serve]
imagePullPolicy: IfNotPresent
imagePullSecrets: [{name: registry}]
probes: {readiness: {httpGet: {path: /ready, port: metrics}}, liveness: {tcpSocket: {port: 8080}}}
resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
pod:
  labels: {team: shop}
  annotations: {example.com/note: hello}
  nodeSelector: {kubernetes.io/arch: amd64}
  tolerations: [{key: dedicated, operator: Exists}]
  volumes: [{name: scratch, emptyDir: {}}, {name: config, configMap: {name: app, optional: true}}]
  volumeMounts: [{name: scratch, mountPath: /tmp}, {name: config, mountPath: /config, readOnly: true}]
security: {profile: Restricted, runAsUser: 1000}
service: {annotations: {example.com/lb: internal}, sessionAffinity: ClientIP}
expose: {type: Ingress, hosts: [shop.example.com], ingress: {ingressClassName: traefik, tls: {secretRef: {name: shop-tls}}}}
autoscaling: {minReplicas: 2, maxReplicas: 5, targetCPUUtilizationPercentage: 70, targetMemoryUtilizationPercentage: 80}
podDisruptionBudget: {minAvailable: 1}
networkPolicy: {preset: Isolated, from: [{namespaceSelector: {matchLabels: {team: a}}}]}
monitoring: {enabled: true}
rollout: {maxSurge: 1, maxUnavailable: 0}
`

func specimen() testkit.KindUnderTest { return specimenOf(application) }

// muchSpecimen is a specimen of much.
func muchSpecimen() testkit.KindUnderTest {
	s := specimenOf(func(ns, name string, _ ...func(*demoapplicationv1.DemoApplication)) *demoapplicationv1.DemoApplication {
		return much(ns, name)
	})
	// The replicas with which the Deployment was created are released to the
	// autoscaler.
	s.Created = append(slices.Clone(s.Created), "patch deployments 200", "patch deployments 200")
	s.Restated = true
	s.Scale = nil // an autoscaler does
	few := s.Children
	s.Children = func(name string) []client.Object {
		om := metav1.ObjectMeta{Name: name}
		return append(few(name), &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: om}, &networkingv1.NetworkPolicy{ObjectMeta: om}, &networkingv1.Ingress{ObjectMeta: om})
	}
	return s
}

func specimenOf(made func(ns, name string, change ...func(*demoapplicationv1.DemoApplication)) *demoapplicationv1.DemoApplication) testkit.KindUnderTest {
	return testkit.KindUnderTest{
		Subject:  subject(),
		Resource: "demoapplications",
		New:      func(ns, name string) converge.Object { return made(ns, name) },
		Children: func(name string) []client.Object {
			om := metav1.ObjectMeta{Name: name}
			return []client.Object{&appsv1.Deployment{ObjectMeta: om}, &corev1.Service{ObjectMeta: om}, &policyv1.PodDisruptionBudget{ObjectMeta: om}}
		},
		Created: []string{"patch controllerrevisions 201"},
		Edit:    func(o converge.Object) { o.(*demoapplicationv1.DemoApplication).Spec.Image = "nginx:1.23.0" },
		Edited:  []string{"patch controllerrevisions 201", "patch deployments 200"},
		Scale:   func(o converge.Object, n int32) { o.(*demoapplicationv1.DemoApplication).Spec.Replica = &n },
		Orphan: func(o converge.Object) {
			o.(*demoapplicationv1.DemoApplication).Spec.DeletionPolicy = common.DeletionPolicyOrphan
		},
		Serves: serves,
		Stated: func(o converge.Object) [][]byte {
			var all [][]byte
			gvk := metav1.GroupVersionKind(demoapplicationv1.GroupVersion.WithKind(demoapplicationv1.Kind))
			plan, err := desired(o.(*demoapplicationv1.DemoApplication), Observed{Offline: true}, platform)
			if err != nil {
				panic(err) // the operator has just done the same
			}
			for _, in := range plan.Apply {
				if in.Optional {
					continue // this API server does not serve it
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
		Own: []string{"/spec/ports", "/spec/template/spec/containers/"},
		TwoWrites: func(path string) bool {
			return slices.ContainsFunc([]string{
				// The annotation that records who manages the replicas is written
				// first.
				"/metadata/annotations/platform-operator.io~1scaled-by",
				"/spec/ports", "/spec/selector", "/spec/ingress", "/spec/podSelector",
				"/spec/template/spec/containers/0/ports", "/spec/template/spec/containers/0/env", "/spec/template/spec/containers/0/args",
			}, func(p string) bool { return strings.HasPrefix(path, p) })
		},
	}
}

func TestDemoApplication_RequestBudget(t *testing.T) {
	t.Parallel()
	env.Budget(t, specimen())
}

func TestDemoApplication_RequestBudgetWithAllFeatures(t *testing.T) {
	t.Parallel()
	env.Budget(t, muchSpecimen())
}

func TestDemoApplication_OrphaningBudgetWithAllFeatures(t *testing.T) {
	t.Parallel()
	env.Orphaning(t, muchSpecimen())
}

func TestDemoApplication_RestoresEveryStatedFieldWithAllFeatures(t *testing.T) {
	t.Parallel()
	env.Drifting(t, muchSpecimen())
}
