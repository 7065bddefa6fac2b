package immortalcontainer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/apis/common"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

type pass struct {
	i *immortalv1alpha1.ImmortalContainer
	o Observed
}

func cases(t *testing.T) map[string]pass {
	t.Helper()
	counted := func(i *immortalv1alpha1.ImmortalContainer) { i.Status.PodUID, i.Status.StartTimes = "p", 1 }
	all := map[string]pass{
		"seed":    {i: sample()},
		"counted": {i: sample(counted), o: Observed{Pod: livePod(withGate)}},
	}
	// Each group of fields, in a new pod.
	for name, spec := range map[string]string{
		"env":              `{env: [{name: A, value: b}, {name: P, valueFrom: {secretKeyRef: {name: s, key: k}}}], envFrom: [{prefix: C_, configMapRef: {name: c}}]}`,
		"image-pull":       `{imagePullPolicy: Always, imagePullSecrets: [{name: registry}]}`,
		"probes":           `{probes: {startup: {exec: {command: [up]}}, readiness: {httpGet: {port: 80}}, liveness: {tcpSocket: {port: 80}, periodSeconds: 30}}}`,
		"entrypoint":       `{command: [sh, -c], args: ["sleep 5"]}`,
		"resources":        `{resources: {requests: {cpu: 50m}, limits: {memory: 64Mi}}}`,
		"labels":           `{pod: {labels: {team: a, app: not-this}, annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "true"}}}`,
		"placement":        `{pod: {nodeSelector: {disktype: ssd}, tolerations: [{key: a, operator: Exists}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}, topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {team: a}}}]}}`,
		"classes":          `{pod: {priorityClassName: high, runtimeClassName: gvisor, terminationGracePeriodSeconds: 5}}`,
		"volumes":          `{pod: {volumes: [{name: c, configMap: {name: c}}, {name: d, persistentVolumeClaim: {claimName: d}}], volumeMounts: [{name: c, mountPath: /c, readOnly: true}, {name: d, mountPath: /d}]}}`,
		"restricted":       `{security: {profile: Restricted, runAsUser: 1000}, pod: {volumes: [{name: e, emptyDir: {}}, {name: i, image: {reference: "r:1"}}], volumeMounts: [{name: e, mountPath: /e}, {name: i, mountPath: /i}]}}`,
		"security":         `{security: {runAsUser: 1000, runAsGroup: 0, fsGroup: 2000, readOnlyRootFilesystem: true}}`,
		"network-policy":   `{networkPolicy: {preset: Isolated, from: [{podSelector: {matchLabels: {app: shop}}}]}}`,
		"network-isolated": `{networkPolicy: {preset: Isolated}}`,
		"suspended":        `{suspend: true, networkPolicy: {preset: Isolated}}`,
		"paused":           `{paused: true}`,
	} {
		i := sample()
		if err := yaml.UnmarshalStrict([]byte(spec), &i.Spec); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = pass{i: i}
	}
	return all
}

func printed(t *testing.T, i *immortalv1alpha1.ImmortalContainer, o Observed) []byte {
	t.Helper()
	plan, err := desired(i, o, config.Default())
	if err != nil {
		t.Fatal(err)
	}
	return golden.Children(t, i, gvk, plan.Apply, plan.Prune)
}

// The golden files contain the exact children: a missing field differs from an
// empty one.
func TestGolden(t *testing.T) {
	golden.CompareCases(t, "seed", cases(t), func(t *testing.T, tc pass) []byte {
		t.Helper()
		got := printed(t, tc.i, tc.o)
		if again := printed(t, tc.i, tc.o); string(again) != string(got) {
			t.Errorf("a second call returns something else:\n%s", cmp.Diff(string(got), string(again)))
		}
		return got
	})
}

func TestDesired_PodMeetsItsSecurityStandard(t *testing.T) {
	e, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases(t) {
		t.Run(name, func(t *testing.T) {
			level := api.LevelBaseline
			if s := tc.i.Spec.Security; s != nil && s.Profile == common.SecurityRestricted {
				level = api.LevelRestricted
			}
			refused := func(p *corev1.Pod) string {
				r := policy.AggregateCheckResults(e.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &p.ObjectMeta, &p.Spec))
				return r.ForbiddenDetail()
			}
			raw, err := pod(tc.i, tc.o).Object(tc.i, gvk)
			if err != nil {
				t.Fatal(err)
			}
			p := &corev1.Pod{}
			if err := yaml.UnmarshalStrict(raw, p); err != nil {
				t.Fatal(err)
			}
			if why := refused(p); why != "" {
				t.Errorf("refused: %s", why)
			}
			p.Spec.HostNetwork = true // proves that the check can fail
			if refused(p) == "" {
				t.Error("the node's network is accepted")
			}
		})
	}
}
