package resources

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/configsource"
)

// said is the part of a kind's spec from which Options are filled.
type said struct {
	common.Container  `json:",inline"`
	common.Entrypoint `json:",inline"`

	Resources *common.Resources `json:"resources,omitempty"`
	Pod       *common.Pod       `json:"pod,omitempty"`
}

// options parses a user's settings.
func options(t *testing.T, spec string) Options {
	t.Helper()
	var s said
	if err := yaml.UnmarshalStrict([]byte(spec), &s); err != nil {
		t.Fatal(err)
	}
	return Options{Container: s.Container, Entrypoint: s.Entrypoint, Resources: s.Resources, Pod: s.Pod}
}

// everything sets every field of a pod that a user can set.
const everything = `
env:
- {name: A, value: a}
- {name: B, valueFrom: {configMapKeyRef: {name: cm-env, key: k, optional: true}}}
- {name: C, valueFrom: {secretKeyRef: {name: s, key: k, optional: false}}}
- {name: D, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
- {name: E, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
envFrom:
- {prefix: P_, configMapRef: {name: cm-from, optional: true}}
- {secretRef: {name: s}}
command: [run]
args: [fast]
imagePullPolicy: Always
imagePullSecrets: [{name: registry}]
resources: {requests: {cpu: 10m}, limits: {memory: 64Mi}}
probes:
  startup: {exec: {command: [started]}, failureThreshold: 30}
  readiness: {httpGet: {port: http, httpHeaders: [{name: X, value: z}]}, initialDelaySeconds: 1, periodSeconds: 2, timeoutSeconds: 3, successThreshold: 4, failureThreshold: 5}
  liveness: {grpc: {port: 9000, service: app}}
pod:
  labels: {team: a, app: mine}
  annotations: {note: b}
  nodeSelector: {disk: ssd}
  tolerations: [{key: a, operator: Equal, value: b, effect: NoExecute, tolerationSeconds: 60}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]}
      preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {a: b}}}]
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution: [{weight: 2, podAffinityTerm: {topologyKey: zone, labelSelector: {matchExpressions: [{key: a, operator: NotIn, values: [b]}]}}}]
  topologySpreadConstraints:
  - {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 3, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor, labelSelector: {matchLabels: {a: b}}}
  - {maxSkew: 1, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}
  priorityClassName: high
  serviceAccountName: robot
  runtimeClassName: gvisor
  terminationGracePeriodSeconds: 60
  drainSeconds: 20
  volumes:
  - {name: config, configMap: {name: cm-volume, items: [{key: k, path: p, mode: 256}], optional: true}}
  - {name: secret, secret: {secretName: s, defaultMode: 256, items: [{key: k, path: p}], optional: true}}
  - {name: tmp, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: data, persistentVolumeClaim: {claimName: c, readOnly: true}}
  - name: all
    projected:
      sources:
      - {configMap: {name: cm-projected, items: [{key: k, path: p}], optional: true}}
      - {secret: {name: s, items: [{key: k, path: q}], optional: true}}
      - {downwardAPI: {items: [{path: cpu, resourceFieldRef: {resource: limits.cpu, divisor: 1m}}]}}
  - {name: pod, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}, mode: 256}, {path: memory, resourceFieldRef: {resource: requests.memory}}]}}
  - {name: site, image: {reference: "site:1", pullPolicy: IfNotPresent}}
  volumeMounts:
  - {name: config, mountPath: /etc/app, subPath: p, readOnly: true}
  - {name: tmp, mountPath: /tmp/}
  initContainers:
  - name: fetch
    image: fetch
    imagePullPolicy: Never
    command: [sh, -c]
    args: [fetch]
    env: [{name: F, value: f}, {name: G, valueFrom: {configMapKeyRef: {name: cm-init, key: k}}}]
    resources: {limits: {cpu: 20m}}
    volumeMounts: [{name: tmp, mountPath: /fetched}]
  - name: proxy
    image: proxy:1
    restartPolicy: Always
    probes: {startup: {tcpSocket: {port: 9000}}, readiness: {grpc: {port: 9000}}, liveness: {exec: {command: [alive]}}}
`

// built returns a pod as a kind builds it, and its container.
func built() (*corev1ac.PodSpecApplyConfiguration, *corev1ac.ContainerApplyConfiguration) {
	tmp, mount := Scratch("tmp", "/tmp")
	run, runMount := Scratch("run", "/run")
	return PodSpec().WithVolumes(tmp, run), corev1ac.Container().WithName("app").WithImage("i").WithVolumeMounts(mount, runMount)
}

func customized(t *testing.T, o Options) string {
	t.Helper()
	pod, c := built()
	Customize(pod, c, o)
	raw, err := yaml.Marshal(pod.WithContainers(c))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestCustomize(t *testing.T) {
	selector := map[string]string{"app": "web"}
	copied := func(name string) string { return name + "-copy" }
	for name, tc := range map[string]struct {
		spec   string
		change func(*Options)
	}{
		"nothing":    {`{}`, func(o *Options) { o.Selector, o.ReadinessPort = selector, 80 }},
		"single-pod": {`{}`, func(*Options) {}},
		"everything": {everything, func(o *Options) {
			o.Selector, o.ReadinessPort, o.RevisionLabel, o.Rename = selector, 80, "controller-revision-hash", copied
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, tc.spec)
			tc.change(&o)
			got := customized(t, o)
			asFile(t, name, got)
			if diff := cmp.Diff(got, customized(t, o)); diff != "" {
				t.Errorf("twice is not the same:\n%s", diff)
			}
			// The API server would reject what cannot be decoded.
			if err := yaml.UnmarshalStrict([]byte(got), &corev1.PodSpec{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// The scheduler ignores the preferred constraints of a pod on a node that lacks the
// label of any of them. Every node has a host name, and many clusters have no zones.
func TestCustomize_SpreadsByDefault(t *testing.T) {
	const (
		hosts = "kubernetes.io/hostname"
		zones = "topology.kubernetes.io/zone"
	)
	// spread is the topology keys of constraints, and of anti-affinity with their
	// weights.
	type spread struct{ constraints, required, preferred []string }
	for name, tc := range map[string]struct {
		spec     string
		selector map[string]string
		want     spread
	}{
		"nothing":    {`{}`, map[string]string{"app": "web"}, spread{constraints: []string{hosts}, preferred: []string{zones + " 100"}}},
		"single pod": {`{}`, nil, spread{}},
		"constraints of the user": {
			`{topologySpreadConstraints: [{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}]}`,
			map[string]string{"app": "web"},
			spread{constraints: []string{"rack"}},
		},
		"node affinity": {
			`{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}}`,
			map[string]string{"app": "web"},
			spread{constraints: []string{hosts}, preferred: []string{zones + " 100"}},
		},
		"required anti-affinity": {
			`{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: rack, labelSelector: {matchLabels: {a: b}}}]}}}`,
			map[string]string{"app": "web"},
			spread{constraints: []string{hosts}, required: []string{"rack"}, preferred: []string{zones + " 100"}},
		},
		"preferred anti-affinity": {
			`{affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: rack, labelSelector: {matchLabels: {a: b}}}}]}}}`,
			map[string]string{"app": "web"},
			spread{constraints: []string{hosts, zones}, preferred: []string{"rack 1"}},
		},
		"preferred affinity": {
			`{affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: rack, labelSelector: {matchLabels: {a: b}}}}]}}}`,
			map[string]string{"app": "web"},
			spread{constraints: []string{hosts, zones}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, "pod: "+tc.spec)
			o.Selector = tc.selector
			pod, c := built()
			Customize(pod, c, o)
			var got spread
			for _, c := range pod.TopologySpreadConstraints {
				got.constraints = append(got.constraints, *c.TopologyKey)
			}
			if pod.Affinity != nil && pod.Affinity.PodAntiAffinity != nil {
				a := pod.Affinity.PodAntiAffinity
				for _, term := range a.RequiredDuringSchedulingIgnoredDuringExecution {
					got.required = append(got.required, *term.TopologyKey)
				}
				for _, term := range a.PreferredDuringSchedulingIgnoredDuringExecution {
					got.preferred = append(got.preferred, fmt.Sprint(*term.PodAffinityTerm.TopologyKey, " ", *term.Weight))
				}
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(spread{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A field that the conversion loses would be missing without an error.
func TestCustomize_KeepsEveryField(t *testing.T) {
	o := options(t, everything)
	pod, c := built()
	pod.Volumes, c.VolumeMounts = nil, nil // so that all names are unused
	Customize(pod, c, o)
	for what, is := range map[string]struct{ said, done any }{
		"env":         {o.Env, c.Env},
		"envFrom":     {o.EnvFrom, c.EnvFrom},
		"command":     {o.Command, c.Command},
		"args":        {o.Args, c.Args},
		"resources":   {o.Resources, c.Resources},
		"startup":     {o.Probes.Startup, c.StartupProbe},
		"readiness":   {o.Probes.Readiness, c.ReadinessProbe},
		"liveness":    {o.Probes.Liveness, c.LivenessProbe},
		"tolerations": {o.Pod.Tolerations, pod.Tolerations},
		"affinity":    {o.Pod.Affinity, pod.Affinity},
		"spread":      {o.Pod.TopologySpreadConstraints, pod.TopologySpreadConstraints},
		"volumes":     {o.Pod.Volumes, pod.Volumes},
		"mounts":      {o.Pod.VolumeMounts, c.VolumeMounts},
	} {
		if missing := lost(decoded(t, is.said), decoded(t, is.done)); missing != "" {
			t.Errorf("%s%s is lost", what, missing)
		}
	}
}

// lost returns the path of the first value in said that is not in done.
func lost(said, done any) string {
	switch s := said.(type) {
	case map[string]any:
		d, _ := done.(map[string]any)
		for k := range s {
			if _, there := d[k]; !there {
				return "." + k
			}
			if l := lost(s[k], d[k]); l != "" {
				return "." + k + l
			}
		}
	case []any:
		d, _ := done.([]any)
		if len(d) != len(s) {
			return "[]"
		}
		for i := range s {
			if l := lost(s[i], d[i]); l != "" {
				return "[]" + l
			}
		}
	default:
		if said != done {
			return " "
		}
	}
	return ""
}

func decoded(t *testing.T, v any) any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var d any
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestUses(t *testing.T) {
	for name, tc := range map[string]struct {
		spec                string
		configMaps, secrets []string
	}{
		"none":          {`{}`, nil, nil},
		"all":           {everything, []string{"cm-env", "cm-from", "cm-init", "cm-projected", "cm-volume"}, []string{"s"}},
		"twice":         {`envFrom: [{configMapRef: {name: a}}, {configMapRef: {name: a}}]`, []string{"a"}, nil},
		"of one name":   {`envFrom: [{configMapRef: {name: a}}, {secretRef: {name: a}}]`, []string{"a"}, []string{"a"}},
		"to pull with":  {`imagePullSecrets: [{name: a}]`, nil, nil},
		"secrets twice": {`{env: [{name: A, valueFrom: {secretKeyRef: {name: a, key: k}}}], envFrom: [{secretRef: {name: a}}]}`, nil, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			configMaps, secrets := Uses(options(t, tc.spec))
			if diff := cmp.Diff(tc.configMaps, configsource.UsedNames(configMaps)); diff != "" {
				t.Errorf("ConfigMaps (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.secrets, configsource.UsedNames(secrets)); diff != "" {
				t.Errorf("Secrets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUses_ReportFields(t *testing.T) {
	_, got := Uses(options(t, `
env: [{name: A, valueFrom: {secretKeyRef: {name: a, key: k, optional: true}}}]
envFrom: [{prefix: X, configMapRef: {name: b}}, {secretRef: {name: c}}]
pod: {volumes: [{name: d, secret: {secretName: e}}, {name: f, projected: {sources: [{secret: {name: g, optional: true}}]}}], initContainers: [{name: h, image: h, env: [{name: A, valueFrom: {secretKeyRef: {name: i, key: k}}}]}]}
`))
	want := []configsource.Use{{Field: "spec.env[A]", Name: "a", Optional: true}, {Field: "spec.envFrom[1]", Name: "c", Optional: false}, {Field: "spec.pod.initContainers[h].env[A]", Name: "i"}, {Field: "spec.pod.volumes[d]", Name: "e", Optional: false}, {Field: "spec.pod.volumes[f]", Name: "g", Optional: true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCustomize_RenamesConflictingVolumes(t *testing.T) {
	o := options(t, `pod: {volumes: [{name: tmp, emptyDir: {}}, {name: user0-tmp, emptyDir: {}}], volumeMounts: [{name: tmp, mountPath: /run}, {name: user0-tmp, mountPath: /x}]}`)
	pod, c := built()
	Customize(pod, c, o)
	var names []string
	for _, v := range pod.Volumes {
		names = append(names, *v.Name)
	}
	if diff := cmp.Diff([]string{"tmp", "run", "user1-tmp", "user0-tmp"}, names); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	mounts := map[string]string{}
	for _, m := range c.VolumeMounts {
		mounts[*m.MountPath] = *m.Name
	}
	if diff := cmp.Diff(map[string]string{"/tmp": "tmp", "/run": "user1-tmp", "/x": "user0-tmp"}, mounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

func TestPodLabelsAndAnnotations(t *testing.T) {
	p := options(t, everything).Pod
	own := map[string]string{"app": "web"}
	if diff := cmp.Diff(map[string]string{"app": "web", "team": "a"}, PodLabels(p, own)); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(own, PodLabels(nil, own)); diff != "" {
		t.Errorf("labels without any of the user's (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"note": "b"}, PodAnnotations(p)); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if got := PodAnnotations(nil); len(got) != 0 {
		t.Errorf("annotations without any of the user's: %v", got)
	}
	const evictable = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
	if got := PodAnnotations(nil, "run", "tmp")[evictable]; got != "run,tmp" {
		t.Errorf("volumes with which a pod may be evicted: %q", got)
	}
	p.Annotations[evictable] = "data"
	if got := PodAnnotations(p, "run", "tmp")[evictable]; got != "run,tmp,data" {
		t.Errorf("volumes with which a pod may be evicted, with one of the user's: %q", got)
	}
}

func TestCustomize_SelectsTheOperatingSystem(t *testing.T) {
	for said, want := range map[common.LabelValue]string{"": "linux", "windows": "windows"} {
		p, c := built()
		var o Options
		if said != "" {
			o.Pod = &common.Pod{NodeSelector: map[string]common.LabelValue{"kubernetes.io/os": said}}
		}
		Customize(p, c, o)
		if got := p.NodeSelector["kubernetes.io/os"]; got != want {
			t.Errorf("%q: pods run on %q, want %q", said, got, want)
		}
	}
}

func TestLeaveLostNodes(t *testing.T) {
	unreachable, notReady := corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady
	for name, tc := range map[string]struct {
		key    string
		effect corev1.TaintEffect
		want   []string // the taints that are tolerated for 30 seconds
	}{
		"another taint":             {key: "gpu", effect: corev1.TaintEffectNoExecute, want: []string{notReady, unreachable}},
		"the user's":                {key: unreachable, effect: corev1.TaintEffectNoExecute, want: []string{notReady}},
		"the user's, any effect":    {key: notReady, want: []string{unreachable}},
		"the user's, for new pods":  {key: notReady, effect: corev1.TaintEffectNoSchedule, want: []string{notReady, unreachable}},
		"all taints":                {effect: corev1.TaintEffectNoExecute},
		"all taints, for new pods":  {effect: corev1.TaintEffectNoSchedule, want: []string{notReady, unreachable}},
		"all taints and all effect": {},
	} {
		t.Run(name, func(t *testing.T) {
			given := corev1ac.Toleration().WithOperator(corev1.TolerationOpExists)
			if tc.key != "" {
				given.WithKey(tc.key)
			}
			if tc.effect != "" {
				given.WithEffect(tc.effect)
			}
			pod := corev1ac.PodSpec().WithTolerations(given)
			OnNodes(pod, config.Default().Pods)
			var got []string
			for _, added := range pod.Tolerations[1:] {
				got = append(got, *added.Key)
				if *added.TolerationSeconds != 30 || *added.Effect != corev1.TaintEffectNoExecute || !leavesLostNodes(added) {
					t.Errorf("added %+v", added)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("added (-want +got):\n%s", diff)
			}
			if leavesLostNodes(pod.Tolerations[0]) {
				t.Error("the user's toleration is exempted from the platform's rules")
			}
		})
	}
}

func TestDrain(t *testing.T) {
	for name, tc := range map[string]struct {
		said                 *common.Pod
		unset                int64
		wantDrain, wantGrace int64
	}{
		"nothing set":            {unset: 5, wantDrain: 5, wantGrace: 30},
		"as set":                 {said: &common.Pod{DrainSeconds: new(int64(3))}, unset: 5, wantDrain: 3, wantGrace: 30},
		"longer":                 {said: &common.Pod{DrainSeconds: new(int64(60))}, unset: 5, wantDrain: 60, wantGrace: 85},
		"longer by the platform": {unset: 20, wantDrain: 20, wantGrace: 45},
		"with a grace period":    {said: &common.Pod{DrainSeconds: new(int64(20)), TerminationGracePeriodSeconds: new(int64(21))}, unset: 5, wantDrain: 20, wantGrace: 21},
		"less than the grace":    {said: &common.Pod{TerminationGracePeriodSeconds: new(int64(2))}, unset: 5, wantDrain: 1, wantGrace: 2},
		"no time for a sleep":    {said: &common.Pod{TerminationGracePeriodSeconds: new(int64(1))}, unset: 5, wantGrace: 1},
		"none asked for":         {said: &common.Pod{DrainSeconds: new(int64(0))}, unset: 5, wantGrace: 30},
		"none by the platform":   {said: &common.Pod{}, wantGrace: 30},
	} {
		t.Run(name, func(t *testing.T) {
			pod, c := PodSpec(), corev1ac.Container()
			Drain(pod, c, tc.said, tc.unset)
			var got int64
			if c.Lifecycle != nil {
				got = *c.Lifecycle.PreStop.Sleep.Seconds
			}
			if grace := *pod.TerminationGracePeriodSeconds; got != tc.wantDrain || grace != tc.wantGrace {
				t.Errorf("sleeps for %d of %d seconds, want %d of %d", got, grace, tc.wantDrain, tc.wantGrace)
			}
		})
	}
}

// pod returns a pod with a profile as the API server would decode it.
func pod(t *testing.T, s *common.Security, own SecurityDefaults, spec string) *corev1.Pod {
	t.Helper()
	p, c := built()
	forPod, forContainer := SecurityContexts(s, own)
	Customize(p.WithSecurityContext(forPod), c.WithSecurityContext(forContainer), options(t, spec))
	raw, err := json.Marshal(p.WithContainers(c))
	if err != nil {
		t.Fatal(err)
	}
	live := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	if err := json.Unmarshal(raw, &live.Spec); err != nil {
		t.Fatal(err)
	}
	return live
}

func TestCustomize_StatesThePullPolicyThatBelongsToTheImage(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0", 64)
	for name, tc := range map[string]struct {
		given corev1.PullPolicy
		image string
		want  corev1.PullPolicy
	}{
		"a version":                       {"", "nginx:1.27.3", corev1.PullIfNotPresent},
		"latest":                          {"", "nginx:latest", corev1.PullAlways},
		"no tag":                          {"", "nginx", corev1.PullAlways},
		"no tag behind a port":            {"", "registry.example:5000/nginx", corev1.PullAlways},
		"a version behind a port":         {"", "registry.example:5000/nginx:1", corev1.PullIfNotPresent},
		"a digest":                        {"", "nginx" + digest, corev1.PullIfNotPresent},
		"a version and a digest":          {"", "nginx:1" + digest, corev1.PullIfNotPresent},
		"latest and a digest":             {"", "nginx:latest" + digest, corev1.PullAlways},
		"an ID":                           {"", strings.Repeat("0", 64), corev1.PullIfNotPresent},
		"the user's policy of a version":  {corev1.PullAlways, "nginx:1.27.3", corev1.PullAlways},
		"the user's policy of latest":     {corev1.PullNever, "nginx:latest", corev1.PullNever},
		"a tag that only begins so":       {"", "nginx:latest-alpine", corev1.PullIfNotPresent},
		"a folder that is called like it": {"", "registry.example/latest/nginx:1", corev1.PullIfNotPresent},
	} {
		t.Run(name, func(t *testing.T) {
			pod, c := built()
			o := Options{Container: common.Container{ImagePullPolicy: tc.given}, Pod: &common.Pod{
				Volumes: []common.Volume{{Name: "site", Image: &common.ImageVolume{Reference: tc.image, PullPolicy: tc.given}}},
			}}
			Customize(pod, c.WithImage(tc.image), o)
			if c.ImagePullPolicy == nil || *c.ImagePullPolicy != tc.want {
				t.Errorf("imagePullPolicy is %s, want %s", deref(c.ImagePullPolicy), tc.want)
			}
			for _, v := range pod.Volumes {
				if v.Image != nil && (v.Image.PullPolicy == nil || *v.Image.PullPolicy != tc.want) {
					t.Errorf("pullPolicy of a volume is %s, want %s", deref(v.Image.PullPolicy), tc.want)
				}
			}
		})
	}
}

func deref(p *corev1.PullPolicy) string {
	if p == nil {
		return "not stated"
	}
	return string(*p)
}
