package webserver

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/judge"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/rollout"
)

// forged returns the state after a user with permission to create
// ControllerRevisions changed a copy of the serving revision and gave it a number.
func forged(t *testing.T, o Observed, number int64, forge func(*corev1.PodTemplateSpec)) Observed {
	t.Helper()
	r := o.Revisions[0].DeepCopy()
	var data struct {
		Template corev1.PodTemplateSpec `json:"template"`
		Revision int64                  `json:"revision"`
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		t.Fatal(err)
	}
	forge(&data.Template)
	data.Revision = number
	raw, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	r.Name, r.UID, r.Revision, r.Data = "forged", "forged", number, runtime.RawExtension{Raw: raw}
	o.Revisions = append(slices.Clip(o.Revisions), r)
	return o
}

// Users who can create ControllerRevisions choose their content, so it must not
// reach the pods unless a spec could lead to it.
func TestDesired_UsesNoStoredTemplateThatNoSpecLeadsTo(t *testing.T) {
	strict := platform
	strict.Images = config.Images{Allowed: []string{"docker.io/library"}, Latest: config.LatestRefuse, Pull: config.PullAlways}
	strict.Pods = config.Pods{
		Annotations: []string{"example.com/*"}, Labels: []string{"team"}, UnlistedKeys: config.KeysRefuse,
		RuntimeClasses: []string{"gvisor"}, Tolerations: []string{"dedicated"}, LeastProfile: common.SecurityBaseline,
		MaxTerminationGracePeriodSeconds: 10, MaxEmptyDirSize: resource.MustParse("1Gi"),
	}
	server := func(p *corev1.PodTemplateSpec) *corev1.Container { return &p.Spec.Containers[0] }
	sidecar := func(change func(*corev1.Container)) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) {
			c := corev1.Container{Name: "evil", Image: "nginx:1.27", ImagePullPolicy: corev1.PullAlways, Command: []string{"sh"}, SecurityContext: server(p).SecurityContext}
			change(&c)
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
	}
	volume := func(v corev1.VolumeSource) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "evil", VolumeSource: v})
		}
	}
	type T = *corev1.PodTemplateSpec
	for name, tc := range map[string]struct {
		forge func(T)
		want  string
	}{
		"network of the node":   {func(p T) { p.Spec.HostNetwork = true }, "spec.hostNetwork"},
		"processes of the node": {func(p T) { p.Spec.HostPID = true }, "spec.hostPID"},
		"memory of the node":    {func(p T) { p.Spec.HostIPC = true }, "spec.hostIPC"},
		"name of a node":        {func(p T) { p.Spec.NodeName = "master-0" }, "spec.nodeName"},
		"another scheduler":     {func(p T) { p.Spec.SchedulerName = "mine" }, "spec.schedulerName"},
		"files of the node": {
			volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}), "spec.volumes[evil].hostPath",
		},
		"a token": {volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t", Audience: "vault"}}},
		}}), "spec.volumes[evil].projected.sources[0].serviceAccountToken"},
		"the default token":                          {func(p T) { p.Spec.AutomountServiceAccountToken = nil }, "spec.automountServiceAccountToken"},
		"a second container":                         {func(p T) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "evil"}) }, "spec.containers[evil]"},
		"an init container":                          {func(p T) { p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "evil"}) }, "spec.initContainers[evil]"},
		"a sidecar that the platform does not allow": {sidecar(func(*corev1.Container) {}), `spec.initContainers[evil] "nginx:1.27 (`},
		"a sidecar with a port":                      {sidecar(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 81}} }), "spec.initContainers[evil].ports"},
		"a sidecar with a hook":                      {sidecar(func(c *corev1.Container) { c.Lifecycle = &corev1.Lifecycle{} }), "spec.initContainers[evil].lifecycle"},
		"privileges":                                 {func(p T) { server(p).SecurityContext.Privileged = new(true) }, "spec.containers[webserver].securityContext.privileged"},
		"escalation":                                 {func(p T) { server(p).SecurityContext.AllowPrivilegeEscalation = nil }, "spec.containers[webserver].securityContext.allowPrivilegeEscalation"},
		"capabilities":                               {func(p T) { server(p).SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"} }, "spec.containers[webserver].securityContext.capabilities.add"},
		"all capabilities":                           {func(p T) { server(p).SecurityContext.Capabilities = nil }, "spec.containers[webserver].securityContext.capabilities.drop"},
		"no security context":                        {func(p T) { server(p).SecurityContext = nil }, "spec.containers[webserver].securityContext"},
		"root":                                       {func(p T) { p.Spec.SecurityContext.RunAsUser = new(int64(0)) }, "spec.securityContext.runAsUser"},
		"root by the image":                          {func(p T) { p.Spec.SecurityContext.RunAsNonRoot = nil }, "spec.securityContext.runAsNonRoot"},
		"a sysctl": {func(p T) {
			p.Spec.SecurityContext.Sysctls = append(p.Spec.SecurityContext.Sysctls, corev1.Sysctl{Name: "kernel.msgmax", Value: "1"})
		}, "spec.securityContext.sysctls[kernel.msgmax]"},
		"a port of the node":      {func(p T) { server(p).Ports[0].HostPort = 80 }, "spec.containers[webserver].ports[http].hostPort"},
		"a probe of another host": {func(p T) { server(p).ReadinessProbe.TCPSocket.Host = "10.0.0.1" }, "spec.containers[webserver].readinessProbe.tcpSocket.host"},
		"pods of other namespaces": {func(p T) {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: "zone", NamespaceSelector: &metav1.LabelSelector{},
			}}}}
		}, "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector"},
		"privileges by annotation": {
			func(p T) { p.Annotations["container.apparmor.security.beta.kubernetes.io/webserver"] = "unconfined" },
			"metadata.annotations[container.apparmor.security.beta.kubernetes.io/webserver]",
		},
		"a command":                       {func(p T) { server(p).Command = []string{"sh", "-c", "evil"} }, "spec.containers[webserver].command"},
		"arguments":                       {func(p T) { server(p).Args = []string{"-g", "daemon off;"} }, "spec.containers[webserver].args"},
		"a command of the init container": {func(p T) { p.Spec.InitContainers[0].Command = []string{"nginx", "-t", "-q;", "evil"} }, "spec.initContainers[config-test].command"},
		"a hook": {
			func(p T) {
				server(p).Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{
					Command: []string{"sh", "-c", "touch /run/draining; sleep 5; evil; rm -f /run/draining"},
				}}}
			},
			"spec.containers[webserver].lifecycle.preStop.exec.command",
		},
		"the environment": {func(p T) { server(p).Env = []corev1.EnvVar{{Name: "LD_PRELOAD", Value: "/evil.so"}} }, "spec.containers[webserver].env"},
		"a Secret as the environment": {func(p T) {
			server(p).EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
		}, "spec.containers[webserver].envFrom"},
		"another service account":      {func(p T) { p.Spec.ServiceAccountName = "admin" }, `service account "admin"`},
		"the older name of that field": {func(p T) { p.Spec.DeprecatedServiceAccount = "admin" }, `service account "admin"`},
		"an image that is not allowed": {func(p T) { server(p).Image = "evil.example/x:1" }, `spec.containers[webserver].image "evil.example/x:1"`},
		"an image volume": {
			volume(corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "evil.example/x:1"}}),
			`spec.volumes[evil].image.reference "evil.example/x:1"`,
		},
		"an image that moves":         {func(p T) { server(p).Image = "nginx:latest" }, `spec.containers[webserver].image "nginx:latest"`},
		"an image that is not pulled": {func(p T) { server(p).ImagePullPolicy = corev1.PullNever }, `spec.containers[webserver].imagePullPolicy "Never"`},
		"an image volume that is not pulled": {
			volume(corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "nginx:1.27", PullPolicy: corev1.PullNever}}),
			`spec.volumes[evil].image.pullPolicy "Never"`,
		},
		"an annotation for the mesh": {
			func(p T) { p.Annotations["sidecar.istio.io/userVolume"] = "[]" }, `metadata.annotations[sidecar.istio.io/userVolume] "[]"`,
		},
		"an annotation that is not listed": {func(p T) { p.Annotations["a.b/c"] = "d" }, `metadata.annotations[a.b/c] "d"`},
		"a label for an identity":          {func(p T) { p.Labels["azure.workload.identity/use"] = "true" }, `metadata.labels[azure.workload.identity/use] "true"`},
		"another runtime":                  {func(p T) { p.Spec.RuntimeClassName = new("runc") }, `spec.runtimeClassName "runc"`},
		"a toleration of one taint": {
			func(p T) {
				p.Spec.Tolerations = []corev1.Toleration{{Key: "control-plane", Operator: corev1.TolerationOpExists}}
			},
			`spec.tolerations[control-plane].key "control-plane"`,
		},
		"a toleration of all taints": {func(p T) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }, `spec.tolerations[].key`},
		"an hour to terminate":       {func(p T) { p.Spec.TerminationGracePeriodSeconds = new(int64(3600)) }, `spec.terminationGracePeriodSeconds "3600"`},
		"a volume without a limit":   {volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), `spec.volumes[evil].emptyDir.sizeLimit`},
		"a large volume": {
			volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("2Gi"))}}),
			`spec.volumes[evil].emptyDir.sizeLimit "2Gi"`,
		},
		"what the platform lists": {func(p T) {
			p.Annotations["example.com/a"], p.Labels["team"] = "b", "a"
			p.Spec.RuntimeClassName = new("gvisor")
			p.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated"}}
			p.Spec.TerminationGracePeriodSeconds = new(int64(5))
			volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("1Gi"))}})(p)
		}, ""},
		"a priority class":         {func(p T) { p.Spec.PriorityClassName = "high" }, `spec.priorityClassName "high"`},
		"a system's priority":      {func(p T) { p.Spec.PriorityClassName = "system-node-critical" }, `spec.priorityClassName "system-node-critical"`},
		"nothing that is wrong":    {func(p T) { p.Spec.NodeSelector = map[string]string{"a": "b"} }, ""},
		"an image that is allowed": {func(p T) { server(p).Image = "nginx:1.26" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			w.Spec.ImagePullPolicy = corev1.PullAlways
			o, _ := passOn(t, strict, w, Observed{}, rolledOut)
			before := o.Deployment.Spec.Template
			o = forged(t, o, 99, tc.forge)
			w.Spec.Rollout = &common.Rollout{PinnedRevision: new(int64(99))}
			check(t, w, o, strict, tc.want, before)
			if tc.want == "" {
				return
			}
			t.Run("which claims to be what serves", func(t *testing.T) {
				o.Deployment = o.Deployment.DeepCopy()
				w.Status.Revisions.CurrentName, w.Status.Revisions.Current = "forged", 99
				check(t, w, o, strict, tc.want, before)
			})
			t.Run("without a Deployment", func(t *testing.T) {
				o.Deployment = nil
				check(t, w, o, strict, tc.want, before)
			})
		})
	}
}

// check fails unless a stored template is refused with a message, or used if the
// message is empty.
func check(t *testing.T, w *webserverv1.WebServer, o Observed, platform config.Platform, message string, before corev1.PodTemplateSpec) {
	t.Helper()
	plan, err := desired(w, o, platform)
	if v := fault.Classify(err); message == "" {
		if err != nil {
			t.Fatal(err)
		}
	} else if v.Class != fault.Stall || v.Reason != common.ReasonNotAllowed || !strings.Contains(v.Message, message) {
		t.Errorf("got %v, want a message about %s", err, message)
	}
	for _, in := range plan.Apply {
		if in.Kind != "Deployment" {
			continue
		}
		sent := sentDeployment(t, w, in).Spec.Template
		if used := !sameTemplate(before, sent); used != (message == "") {
			t.Errorf("the stored template is used: %v", used)
		}
	}
	report(w.DeepCopy(), o, outcome(err, o.Deployment, o.Service), platform)
}

func sameTemplate(a, b corev1.PodTemplateSpec) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}

// What the operator wrote itself stays in use when a rule is newer, but pods that
// do not have it get none of it.
func TestDesired_StoredTemplateMeetsNewerRules(t *testing.T) {
	w := sample()
	w.Spec.Image = "old.example/nginx:1"
	o, _ := passOn(t, platform, w, Observed{}, rolledOut)
	strict := platform
	strict.Images.Allowed = []string{"docker.io/library"}
	for name, lose := range map[string]func(*appsv1.Deployment) *appsv1.Deployment{
		"with its Deployment":    func(d *appsv1.Deployment) *appsv1.Deployment { return d },
		"without its Deployment": func(*appsv1.Deployment) *appsv1.Deployment { return nil },
	} {
		t.Run("what the spec asks for, "+name, func(t *testing.T) {
			o := o
			o.Deployment = lose(o.Deployment)
			if plan, err := desired(w, o, strict); err != nil || !strings.Contains(strings.Join(kinds(plan.Apply), " "), "Deployment") {
				t.Errorf("written are %v, %v", kinds(plan.Apply), err)
			}
		})
	}
	w.Spec.Image = "nginx:1.27.4"
	o, _ = passOn(t, strict, w, o, rolledOut)
	before := o.Deployment.Spec.Template
	w.Spec.Rollout = &common.Rollout{PinnedRevision: new(int64(1))}
	check(t, w, o, strict, `spec.containers[webserver].image "old.example/nginx:1"`, before)
}

// A rollback brings nothing that a newer rule refuses, but it does not fail because of
// what the pods have in any case.
func TestDesired_RollsBackToWhatRuns(t *testing.T) {
	key := "sidecar.istio.io/inject"
	older := platform
	older.Pods.Annotations = []string{key}
	for name, tc := range map[string]struct {
		second map[string]common.AnnotationValue
		want   string
	}{
		"the pods have the same value": {map[string]common.AnnotationValue{key: "false"}, ""},
		"the pods have another value":  {map[string]common.AnnotationValue{key: "true"}, `metadata.annotations[` + key + `] "false"`},
		"the pods have no value":       {nil, `metadata.annotations[` + key + `] "false"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			w.Spec.Pod = &common.Pod{Annotations: map[string]common.AnnotationValue{key: "false"}}
			o, _ := passOn(t, older, w, Observed{}, rolledOut)
			w.Spec.Image, w.Spec.Pod = "nginx:1.26", &common.Pod{Annotations: tc.second}
			o, _ = passOn(t, older, w, o, rolledOut)
			before := o.Deployment.Spec.Template
			w.Spec.Rollout = &common.Rollout{PinnedRevision: new(int64(1))}
			w.Spec.Image, w.Spec.Pod = "nginx:1.25", nil // the spec does not ask for the annotation any more
			check(t, w, o, platform, tc.want, before)
		})
	}
}

// The name of the next revision is a hash, which everyone can compute.
func TestDesired_UsesNoRevisionThatWaitsForTheSpec(t *testing.T) {
	for name, forge := range map[string]func(*corev1.PodTemplateSpec){
		"with another hash":     func(p *corev1.PodTemplateSpec) { p.Annotations[naming.AnnotationTemplate] = "other" },
		"with the correct hash": func(*corev1.PodTemplateSpec) {},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			o, _ := pass(t, w, Observed{}, rolledOut)
			expected := o.Revisions[0].Name
			before := o.Deployment.Spec.Template
			o = forged(t, o, 1, func(p *corev1.PodTemplateSpec) {
				p.Spec.HostNetwork = true
				forge(p)
			})
			w = sample()
			o = Observed{Observed: rollout.Observed{Revisions: o.Revisions[1:]}}
			o.Revisions[0].Name = expected
			plan, err := desired(w, o, platform)
			honest := name == "with the correct hash" // the template of the spec is used
			if honest != (err == nil) || !honest && fault.Classify(err).Reason != common.ReasonNotAllowed {
				t.Errorf("got %v", err)
			}
			for _, in := range plan.Apply {
				if in.Kind == "Deployment" && !sameTemplate(before, sentDeployment(t, w, in).Spec.Template) {
					t.Error("the stored template is used")
				}
			}
			if got := slices.Contains(kinds(plan.Apply), "Deployment"); got != honest {
				t.Errorf("the Deployment is written: %v", got)
			}
		})
	}
}

func TestTemplateRules_AllowAllThatTheKindGenerates(t *testing.T) {
	rules := resources.TemplateRules{Profile: common.SecurityRestricted, Containers: []string{containerName, exporterName, rollout.ConfigTest, judge.Container}, Commands: commands}
	for name, in := range cases(t) {
		t.Run(name, func(t *testing.T) {
			w, o := in()
			m := kind(platform).Model(w, o)
			if m.Decision.Template == nil {
				t.Skip("nothing is decided")
			}
			if found := rules.Violations(m.Decision.Template); len(found) > 0 {
				t.Errorf("not allowed: %v", found)
			}
		})
	}
}

// generatedCommands are the commands, arguments and hooks that any version of the operator
// has generated, with 1 for each number. Add what is new, and remove nothing: pods with the
// earlier ones run until their object changes.
var generatedCommands = []string{
	"sh -c touch /run/draining; sleep 1",
	"sh -c touch /run/draining; sleep 1; rm -f /run/draining",
	"nginx -t -q",
	"judge",
	"--nginx.scrape-uri=http://127.0.0.1:1/stub_status",
}

func TestTemplateRules_AllowTheCommandsOfEarlierVersions(t *testing.T) {
	for _, c := range generatedCommands {
		if !commands.MatchString(c) {
			t.Errorf("%q is not allowed any more", c)
		}
	}
	number := regexp.MustCompile(`(sleep |:)\d+`)
	own := []string{containerName, exporterName, rollout.ConfigTest, judge.Container}
	for name, in := range cases(t) {
		template := kind(platform).Model(in()).Decision.Template
		if template == nil {
			continue
		}
		for _, c := range slices.Concat(template.Spec.Containers, template.Spec.InitContainers) {
			if !slices.Contains(own, *c.Name) {
				continue // a spec sets it
			}
			all := [][]string{c.Command, c.Args}
			if c.Lifecycle != nil && c.Lifecycle.PreStop.Exec != nil {
				all = append(all, c.Lifecycle.PreStop.Exec.Command)
			}
			for _, words := range all {
				if got := number.ReplaceAllString(strings.Join(words, " "), "${1}1"); got != "" && !slices.Contains(generatedCommands, got) {
					t.Errorf("%s: %q is missing in generatedCommands", name, got)
				}
			}
		}
	}
}
