package webserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

func init() { rollout.HealthyAfter = 0 } // the pods of Deployments are not simulated

// pass reconciles an object once, in a cluster that applies everything immediately.
// It returns the state that is observed afterwards, and the names of the pruned
// objects.
func pass(t *testing.T, w *webserverv1.WebServer, o Observed, roll func(*appsv1.Deployment)) (Observed, []string) {
	t.Helper()
	return passOn(t, platform, w, o, roll)
}

func passOn(t *testing.T, platform config.Platform, w *webserverv1.WebServer, o Observed, roll func(*appsv1.Deployment)) (Observed, []string) {
	t.Helper()
	plan, err := desired(w, o, platform)
	if err != nil {
		t.Fatal(err)
	}
	after := o
	for _, in := range plan.Apply {
		raw, err := in.Object(w, ownerKind)
		if err != nil {
			t.Fatal(err)
		}
		after = see(t, after, raw)
	}
	var pruned []string
	for _, p := range plan.Prune {
		pruned = append(pruned, p.GetName())
		after.Snapshots = slices.DeleteFunc(slices.Clone(after.Snapshots), func(c *corev1.ConfigMap) bool { return client.Object(c) == p })
		after.Revisions = slices.DeleteFunc(slices.Clone(after.Revisions), func(c *appsv1.ControllerRevision) bool { return client.Object(c) == p })
	}
	roll(after.Deployment)
	report(w, o, converge.NewOutcome(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC), fault.Classify(err), map[string]client.Object{
		"Deployment": after.Deployment, "Service": after.Service,
	}), platform)
	return after, pruned
}

// rolledOut sets the status of a Deployment all of whose pods are serving.
func rolledOut(d *appsv1.Deployment) {
	n := int32(1)
	if d.Spec.Replicas != nil {
		n = *d.Spec.Replicas
	}
	d.Status = appsv1.DeploymentStatus{}
	allAvailable(n)(d)
}

// underway sets the status of a Deployment that has no updated pods yet.
func underway(d *appsv1.Deployment) {
	rolledOut(d)
	d.Status.UpdatedReplicas = 0
}

// mounted returns the text of the configuration that the pods of the Deployment
// mount.
func mounted(t *testing.T, o Observed) string {
	t.Helper()
	for _, v := range o.Deployment.Spec.Template.Spec.Volumes {
		if v.Name != "config" {
			continue
		}
		for _, c := range o.Snapshots {
			if c.Name == v.ConfigMap.Name {
				return c.Data[snippetFile]
			}
		}
		t.Fatalf("ConfigMap %s is mounted and does not exist", v.ConfigMap.Name)
	}
	return ""
}

func sourced(text string) Observed { return Observed{Sources: has1("cfg", "server.conf", text)} }

func TestRevision_ChangedConfigMapCreatesOne(t *testing.T) {
	w := referring("cfg", "", "")
	o, _ := pass(t, w, sourced("return 201;"), rolledOut)
	first := o.Deployment.Spec.Template.Annotations[naming.AnnotationTemplate]
	o.Sources = sourced("return 202;").Sources
	o, pruned := pass(t, w, o, underway)
	if got := o.Deployment.Spec.Template.Annotations[naming.AnnotationTemplate]; got == first {
		t.Error("the pods are not replaced")
	}
	if diff := cmp.Diff(&common.Revisions{Current: 2, LastHealthy: 1}, w.Status.Revisions, cmpopts.IgnoreFields(common.Revisions{}, "CurrentName", "CurrentTemplate", "LastHealthyName")); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
	if len(pruned) != 0 || len(o.Snapshots) != 2 || mounted(t, o) != "return 202;" {
		t.Errorf("pruned %v, %d copies, %q is mounted", pruned, len(o.Snapshots), mounted(t, o))
	}
}

func TestRevision_RollbackRestoresItsContent(t *testing.T) {
	w := referring("cfg", "", "")
	o, _ := pass(t, w, sourced("return 201;"), rolledOut)
	before := o.Deployment.Spec.Template
	o.Sources = sourced("retrun 202;").Sources
	o, _ = pass(t, w, o, underway)
	if c := configValid(w); c.Status != metav1.ConditionUnknown || c.Reason != "Testing" {
		t.Errorf("while it is tested: %+v", c)
	}
	o.Pods = []corev1.Pod{refusing(o.Deployment, `2026/11/27 18:12:26 [warn] 1#1: the "user" directive makes sense only if the master process runs with super-user privileges, ignored in /etc/nginx/nginx.conf:2
nginx: [warn] the "user" directive makes sense only if the master process runs with super-user privileges, ignored in /etc/nginx/nginx.conf:2
2026/11/27 18:12:26 [emerg] 1#1: unknown directive "retrun" in /etc/nginx/conf.d/server.snippet:1
nginx: [emerg] unknown directive "retrun" in /etc/nginx/conf.d/server.snippet:1
nginx: configuration file /etc/nginx/nginx.conf test failed
`)}
	o, _ = pass(t, w, o, underway) // records the failure
	o, _ = pass(t, w, o, underway) // rolls back
	if diff := cmp.Diff(before, o.Deployment.Spec.Template); diff != "" {
		t.Errorf("the template is not the earlier one:\n%s", diff)
	}
	if got := mounted(t, o); got != "return 201;" {
		t.Errorf("%q is mounted", got)
	}
	o, pruned := pass(t, w, o, rolledOut)
	if len(pruned) != 0 || len(o.Snapshots) != 2 {
		t.Errorf("pruned %v, %d copies", pruned, len(o.Snapshots))
	}
	if diff := cmp.Diff(map[string]string{
		"Available": "True ReplicasAvailable", "Ready": "False RolledBack", "Stalled": "True RolloutFailed", "ConfigValid": "False Invalid",
	}, brief(w)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if m, want := configValid(w).Message, `The configuration is rejected: nginx: [emerg] unknown directive "retrun" in /etc/nginx/conf.d/server.snippet:1.`; m != want {
		t.Errorf("ConfigValid does not say what nginx says of it, and that alone: %s", m)
	}
	if w.Status.Image != "nginx:1.23.1" || w.Status.Revisions.Failed != 2 || w.Status.Revisions.LastHealthy != 1 {
		t.Errorf("status %+v", w.Status.Revisions)
	}

	// A correction is a new revision, and the condition describes that revision.
	o.Sources, o.Pods = sourced("return 203;").Sources, nil
	o, _ = pass(t, w, o, underway)
	if c := configValid(w); c.Status != metav1.ConditionUnknown {
		t.Errorf("of the correction: %+v", c)
	}
	w.Status.Canary = &common.CanaryStatus{Revision: 3, ReadyPods: 1}
	reportConfig(w, rollout.Decision{Desired: rollout.Revision{Number: 3}}, material{config: &configsource.Snapshot{}}, false, converge.Outcome{})
	if c := configValid(w); c.Status != metav1.ConditionTrue {
		t.Errorf("a canary of the correction serves: %+v", c)
	}
	o, _ = pass(t, w, o, rolledOut)
	if c := configValid(w); c.Status != metav1.ConditionTrue || c.Reason != "Tested" {
		t.Errorf("of the correction that serves: %+v", c)
	}
	// If pods are replaced later, the configuration is still reported as tested.
	if _, _ = pass(t, w, o, underway); configValid(w).Status != metav1.ConditionTrue {
		t.Errorf("later: %+v", configValid(w))
	}
}

// An nginx without HTTP/3 says only that it does not know a directive of the operator.
func TestRevision_NginxWithoutHTTP3(t *testing.T) {
	w := referring("cfg", "", "")
	w.Spec.TLS = &webserverv1.TLS{SecretRef: webserverv1.SecretReference{Name: "cert"}}
	o, _ := pass(t, w, sourced("return 201;"), rolledOut)
	w.Spec.TLS.HTTP3 = true
	o, _ = pass(t, w, o, underway)
	o.Pods = []corev1.Pod{refusing(o.Deployment, `nginx: [emerg] unknown directive "http3" in /etc/nginx/conf.d/default.conf:20
nginx: configuration file /etc/nginx/nginx.conf test failed
`)}
	o, _ = pass(t, w, o, underway) // records the failure
	o, _ = pass(t, w, o, rolledOut)
	const cause = "The configuration is rejected, because the nginx of the image has no HTTP/3. Use another image, or remove spec.tls.http3"
	if m, want := configValid(w).Message, cause+`: nginx: [emerg] unknown directive "http3" in /etc/nginx/conf.d/default.conf:20.`; m != want {
		t.Errorf("ConfigValid: %s", m)
	}
	ready := meta.FindStatusCondition(w.Status.Conditions, common.ConditionReady)
	if ready.Reason != common.ReasonRolledBack || !strings.Contains(ready.Message, cause) {
		t.Errorf("Ready: %+v", ready)
	}
	if len(o.Service.Spec.Ports) != 2 {
		t.Errorf("the Service has the ports %+v", o.Service.Spec.Ports)
	}
}

// The pods of an earlier revision keep their ports for https and http3, and so does the Service.
func TestService_KeepsHTTPSForTheRevisionThatServes(t *testing.T) {
	w := referring("cfg", "", "")
	w.Spec.TLS = &webserverv1.TLS{SecretRef: webserverv1.SecretReference{Name: "cert"}, HTTP3: true}
	w.Spec.Service = &webserverv1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}
	o, _ := pass(t, w, sourced("return 201;"), rolledOut)
	https := func() bool {
		return httpsPort(o.Service).Port == tlsPort && slices.ContainsFunc(o.Service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == http3Name })
	}
	if !https() {
		t.Fatal("no port for https")
	}
	w.Spec.TLS, o.Sources = nil, sourced("retrun 202;").Sources
	o, _ = pass(t, w, o, underway)
	o.Pods = []corev1.Pod{refusing(o.Deployment, "nginx: [emerg] unknown directive")}
	o, _ = pass(t, w, o, underway) // records the failure
	o, _ = pass(t, w, o, rolledOut)
	if !https() {
		t.Error("rolled back, but not the Service")
	}
	o.Sources, o.Pods = sourced("return 203;").Sources, nil
	if o, _ = pass(t, w, o, rolledOut); https() {
		t.Error("a port that no pod has")
	}
}

// refusing returns a pod of a Deployment whose configuration nginx has rejected for
// the last time before the rollout fails.
func refusing(d *appsv1.Deployment, says string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: "p", Annotations: d.Spec.Template.Annotations},
		Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{
			Name: rollout.ConfigTest, RestartCount: 2,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: says}},
		}}},
	}
}

func configValid(w *webserverv1.WebServer) metav1.Condition {
	if c := meta.FindStatusCondition(w.Status.Conditions, "ConfigValid"); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func TestSnapshots_AreDeletedWithTheirRevisions(t *testing.T) {
	w := referring("cfg", "", "")
	w.Spec.Rollout = &common.Rollout{RevisionHistoryLimit: new(int32(1))}
	o := Observed{}
	var pruned []string
	for _, text := range []string{"return 201;", "return 202;", "return 203;"} {
		o.Sources = sourced(text).Sources
		o, _ = pass(t, w, o, rolledOut)
		o, pruned = pass(t, w, o, rolledOut)
	}
	if len(pruned) != 2 || len(o.Snapshots) != 2 || len(o.Revisions) != 2 {
		t.Errorf("pruned %v, %d copies, %d revisions", pruned, len(o.Snapshots), len(o.Revisions))
	}
	if o, pruned = pass(t, w, o, rolledOut); len(pruned) != 0 {
		t.Errorf("pruned %v once more", pruned)
	}
	w.Spec.Rollout.PinnedRevision = new(int64(2))
	o, _ = pass(t, w, o, rolledOut)
	if got := mounted(t, o); got != "return 202;" {
		t.Errorf("revision 2 mounts %q", got)
	}
	if c := configValid(w); c.Status != metav1.ConditionUnknown {
		t.Errorf("what the spec asks for is in no pod: %+v", c)
	}
}

func TestRevision_IgnoresConfigMapChangesUnlessFollowed(t *testing.T) {
	w := unfollowing(referring("cfg", "", ""))
	o, _ := pass(t, w, sourced("return 201;"), rolledOut)
	o.Sources = sourced("return 202;").Sources
	o, _ = pass(t, w, o, rolledOut)
	if got := mounted(t, o); got != "return 201;" || w.Status.Revisions.Current != 1 {
		t.Errorf("%q is mounted, revisions %+v", got, w.Status.Revisions)
	}
	if diff := cmp.Diff([]string{"spec.volumes[config].configMap would change"}, shortened(w.Status.PendingChanges)); diff != "" {
		t.Errorf("what is pending (-want +got):\n%s", diff)
	}
	w.Spec.Rollout.RestartedAt = &metav1.Time{Time: time.Unix(1, 0)}
	o, _ = pass(t, w, o, rolledOut)
	if got := mounted(t, o); got != "return 202;" || len(w.Status.PendingChanges) != 0 {
		t.Errorf("after the restart %q is mounted, pending: %v", got, w.Status.PendingChanges)
	}
}

func shortened(changes []string) []string {
	var all []string
	for _, c := range changes {
		all = append(all, strings.Replace(c, ".name would", " would", 1))
	}
	return all
}

// A newer operator that generates another configuration around a user's snippet
// does not replace pods.
func TestRevision_GeneratedTextOfANewerOperatorKeepsPods(t *testing.T) {
	w := referring("cfg", "", "")
	o, _ := pass(t, w, sourced("return 201;"), rolledOut)
	older := "webserver-sample-config-0000000000000000"
	for _, c := range o.Snapshots {
		now := o.Revisions[0].Annotations[naming.AnnotationTemplate]
		o.Revisions[0].Annotations[naming.AnnotationTemplate] = "older"
		o.Revisions[0].Data.Raw = []byte(strings.NewReplacer(c.Name, older, now, "older").Replace(string(o.Revisions[0].Data.Raw)))
		c.Name = older
		c.Data[serverFile] += "# written by an older operator\n"
	}
	o, pruned := pass(t, w, o, rolledOut)
	if v := o.Deployment.Spec.Template.Spec.Volumes; v[len(v)-1].ConfigMap.Name != older {
		t.Errorf("the pods mount %s", v[len(v)-1].ConfigMap.Name)
	}
	if len(pruned) != 0 || len(w.Status.PendingChanges) != 1 || w.Status.Revisions.Current != 1 {
		t.Errorf("pruned %v, pending %v, revisions %+v", pruned, w.Status.PendingChanges, w.Status.Revisions)
	}
}

// As long as the inputs are the same, the template and the ConfigMap that it mounts
// are kept. Another ConfigMap would be one write per object when the operator is
// upgraded.
func TestDesired_CreatesNoConfigMapThatNoRevisionMounts(t *testing.T) {
	w := sample() // the official image, for which the operator generates a configuration
	o, _ := pass(t, w, Observed{}, rolledOut)
	older := "webserver-sample-config-0000000000000000"
	for _, c := range o.Snapshots {
		now := o.Revisions[0].Annotations[naming.AnnotationTemplate]
		o.Revisions[0].Annotations[naming.AnnotationTemplate] = "older"
		o.Revisions[0].Data.Raw = []byte(strings.NewReplacer(c.Name, older, now, "older").Replace(string(o.Revisions[0].Data.Raw)))
		c.Name = older
	}
	o, _ = pass(t, w, o, rolledOut)
	var names []string
	for _, c := range o.Snapshots {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{older}, names); diff != "" {
		t.Errorf("ConfigMaps (-want +got):\n%s", diff)
	}
	w.Spec.Image = "nginx:1.27.4" // the next change adopts the newer text
	o, _ = pass(t, w, o, rolledOut)
	if len(o.Snapshots) != 2 {
		t.Errorf("%d ConfigMaps after the next change, want 2", len(o.Snapshots))
	}
}

// Fields that do not affect pods do not create a revision.
func TestInputs(t *testing.T) {
	revision := func(w *webserverv1.WebServer) string {
		t.Helper()
		d, _, err := decide(w, Observed{}, platform)
		if err != nil {
			t.Fatal(err)
		}
		return d.Keep.Name
	}
	furnished := func() *webserverv1.WebServer {
		w := sample()
		w.Spec.Monitoring = &common.Monitoring{Enabled: true}
		return w
	}
	was := revision(furnished())
	for name, tc := range map[string]struct {
		change func(*webserverv1.WebServerSpec)
		new    bool
	}{
		"replicas":    {func(s *webserverv1.WebServerSpec) { s.Replicas = nil }, false},
		"service":     {func(s *webserverv1.WebServerSpec) { s.Service = &webserverv1.ServiceSpec{Port: new(int32(8080))} }, false},
		"expose":      {func(s *webserverv1.WebServerSpec) { s.Expose = &common.Expose{Type: common.ExposeIngress} }, false},
		"autoscaling": {func(s *webserverv1.WebServerSpec) { s.Autoscaling = &common.Autoscaling{MaxReplicas: 3} }, false},
		"budget": {func(s *webserverv1.WebServerSpec) {
			s.PodDisruptionBudget = &common.PodDisruptionBudget{MaxUnavailable: new(intstr.FromInt32(2))}
		}, false},
		"network policy": {func(s *webserverv1.WebServerSpec) {
			s.NetworkPolicy = &common.NetworkPolicy{Preset: common.NetworkPolicyIsolated}
		}, false},
		"interval of scrapes": {func(s *webserverv1.WebServerSpec) { s.Monitoring.Interval = "30s" }, false},
		"paused":              {func(s *webserverv1.WebServerSpec) { s.Paused = true }, false},
		"deletion policy":     {func(s *webserverv1.WebServerSpec) { s.DeletionPolicy = common.DeletionPolicyOrphan }, false},
		"how it is rolled out": {func(s *webserverv1.WebServerSpec) {
			s.Rollout = &common.Rollout{MaxSurge: new(intstr.FromInt32(1)), PinnedRevision: new(int64(1))}
		}, false},
		"restarted at": {func(s *webserverv1.WebServerSpec) {
			s.Rollout = &common.Rollout{RestartedAt: &metav1.Time{Time: time.Unix(1, 0)}}
		}, true},
		"image":       {func(s *webserverv1.WebServerSpec) { s.Image = "nginx:1.27.4" }, true},
		"config":      {func(s *webserverv1.WebServerSpec) { s.Config = &webserverv1.ConfigSource{Inline: "return 204;"} }, true},
		"tls":         {func(s *webserverv1.WebServerSpec) { s.TLS = &webserverv1.TLS{} }, true},
		"monitoring":  {func(s *webserverv1.WebServerSpec) { s.Monitoring = nil }, true},
		"resources":   {func(s *webserverv1.WebServerSpec) { s.Resources = &common.Resources{} }, true},
		"pod":         {func(s *webserverv1.WebServerSpec) { s.Pod = &common.Pod{RuntimeClassName: "a"} }, true},
		"security":    {func(s *webserverv1.WebServerSpec) { s.Security = &common.Security{RunAsUser: new(int64(1))} }, true},
		"probes":      {func(s *webserverv1.WebServerSpec) { s.Probes = &common.Probes{} }, true},
		"pull policy": {func(s *webserverv1.WebServerSpec) { s.ImagePullPolicy = corev1.PullAlways }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := furnished()
			tc.change(&w.Spec)
			if made := revision(w) != was; made != tc.new {
				t.Errorf("a new revision: %v, want %v", made, tc.new)
			}
		})
	}
}

// The names of revisions are stored in clusters: if the name for the same spec
// changed, upgrading the operator would create a revision of every object.
func TestRevision_NameIsStable(t *testing.T) {
	d, _, err := decide(sample(), Observed{}, platform)
	if err != nil {
		t.Fatal(err)
	}
	if want := "webserver-sample-f189de9cf63cd348"; d.Keep.Name != want {
		t.Errorf("got %s, want %s", d.Keep.Name, want)
	}
}

// A missing reference must not prevent the deletion of an object, and all children
// that exist are released.
func TestDesired_DeletionNeedsNoReferences(t *testing.T) {
	for name, change := range map[string]func(*webserverv1.WebServer, *Observed){
		"no ConfigMap": func(_ *webserverv1.WebServer, o *Observed) { o.Sources = nil },
		"no such revision": func(w *webserverv1.WebServer, _ *Observed) {
			w.Spec.Rollout = &common.Rollout{PinnedRevision: new(int64(9))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := referring("cfg", "", "")
			o, _ := pass(t, w, sourced("return 201;"), rolledOut)
			change(w, &o)
			if _, err := desired(w, o, platform); err == nil {
				t.Error("nothing is missing")
			}
			w.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			plan, err := desired(w, o, platform)
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range []string{"ConfigMap", "Deployment", "Service", "PodDisruptionBudget"} {
				if !slices.Contains(kinds(plan.Apply), kind) {
					t.Errorf("no %s among %v", kind, kinds(plan.Apply))
				}
			}
		})
	}
}

func TestDesired_PrunesUnrequestedChildren(t *testing.T) {
	all := sample()
	all.Spec.Autoscaling = &common.Autoscaling{MinReplicas: new(int32(2)), MaxReplicas: 3}
	all.Spec.NetworkPolicy = &common.NetworkPolicy{Preset: common.NetworkPolicyIsolated}
	all.Spec.Monitoring = &common.Monitoring{Enabled: true}
	all.Spec.Expose = &common.Expose{Type: common.ExposeIngress, Hosts: []string{"a.example"}}
	o, _ := pass(t, all, Observed{}, rolledOut)
	all.Spec.Expose = &common.Expose{Type: common.ExposeGateway, Hosts: []string{"a.example"}, Gateway: &common.ExposeGatewayOptions{ParentRef: common.GatewayReference{Name: "g"}}}
	var gone []string
	plan, err := desired(all, o, platform)
	for _, p := range plan.Prune {
		gone = append(gone, strings.TrimPrefix(typeOf(p), "*v1."))
	}
	if err != nil || len(gone) > 0 { // the Ingress serves until a Gateway accepts the route
		t.Errorf("with the other type %v go, %v", gone, err)
	}
	o, _ = pass(t, all, o, rolledOut)
	one := sample()
	one.Spec.Replicas = new(int32(1))
	// A pod that ends before the next one starts is not replaced before it is evicted.
	one.Spec.Rollout = &common.Rollout{RevisionHistoryLimit: new(int32(0)), Strategy: appsv1.RecreateDeploymentStrategyType}
	o, _ = pass(t, one, o, rolledOut) // the previous revision is needed until it serves
	plan, err = desired(one, o, platform)
	if err != nil {
		t.Fatal(err)
	}
	gone = nil
	for _, p := range plan.Prune {
		gone = append(gone, typeOf(p))
	}
	want := []string{
		"*v1.ControllerRevision", "*v1.NetworkPolicy", "*v2.HorizontalPodAutoscaler", "*v1.PodDisruptionBudget", "*v1.Ingress", "*v1.HTTPRoute",
		"*monitoring.PodMonitor", "*v1.ConfigMap",
	}
	if diff := cmp.Diff(want, gone); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDesired_TypesThatAreNotServed(t *testing.T) {
	w := sample()
	w.Spec.Monitoring = &common.Monitoring{Enabled: true}
	w.Spec.Expose = &common.Expose{Type: common.ExposeGateway, Hosts: []string{"a.example"}}
	o := Observed{Children: workload.Children{NoRoutes: true, NoPodMonitors: true}}
	with, _ := typed(t, w, Observed{})
	without, _ := typed(t, w, o)
	if diff := cmp.Diff(with.Spec.Template, without.Spec.Template); diff != "" {
		t.Errorf("the pods depend on the APIs that the cluster serves:\n%s", diff)
	}
	plan, err := desired(w, o, platform)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range plan.Apply {
		// Metrics can be scraped without a PodMonitor, but hosts are not routed
		// without a route.
		if want := in.Kind == "PodMonitor"; in.Optional != want {
			t.Errorf("%s is left out without a word: %v", in.Kind, in.Optional)
		}
	}
	report(w, o, outcome(nil, nil, nil), platform)
	if got := brief(w)["Exposed"]; got != "False FeatureUnavailable" {
		t.Errorf("Exposed is %s", got)
	}
	w.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	plan, err = desired(w, o, platform)
	if err != nil || slices.Contains(kinds(plan.Apply), "HTTPRoute") || slices.Contains(kinds(plan.Apply), "PodMonitor") {
		t.Errorf("a deletion waits for %v, %v", kinds(plan.Apply), err)
	}
}

// A paused object is not restored, nor are fields that keep changing.
func TestReport_LearnsNothingFromAPodTemplateThatWasChanged(t *testing.T) {
	for name, then := range map[string]func(*Observed){
		"and works": func(o *Observed) { rolledOut(o.Deployment) },
		"and fails": func(o *Observed) { o.Pods = []corev1.Pod{refusing(o.Deployment, "no such file")} },
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			o, _ := pass(t, w, Observed{}, rolledOut)
			w.Spec.Image = "nginx:2"
			o, _ = pass(t, w, o, underway)
			before := w.Status.DeepCopy()
			then(&o)
			o.Deployment.Spec.Template.Spec.Containers[0].Image = "other:1"
			report(w, o, outcome(fault.Waiting(0, messages.New(common.ReasonPaused, "paused")), nil, nil), platform)
			if diff := cmp.Diff(before.RolloutStatus, w.Status.RolloutStatus); diff != "" {
				t.Errorf("status of the rollout (-before +after):\n%s", diff)
			}
			if got := brief(w)["Ready"]; got != "False Paused" {
				t.Errorf("Ready is %s", got)
			}
			// The next reconcile restores the Deployment, and reads it before that.
			if pass(t, w, o, underway); name == "and works" && w.Status.Revisions.LastHealthy != 1 {
				t.Errorf("resumed: revision %d is the last healthy one", w.Status.Revisions.LastHealthy)
			}
		})
	}
}

func TestScale(t *testing.T) {
	live := func(n int32) *appsv1.Deployment { return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &n}} }
	auto := func(low *int32) *webserverv1.WebServer {
		return &webserverv1.WebServer{Spec: webserverv1.WebServerSpec{Autoscaling: &common.Autoscaling{MinReplicas: low, MaxReplicas: 9}}}
	}
	for name, tc := range map[string]struct {
		w      *webserverv1.WebServer
		live   *appsv1.Deployment
		states *int32
		want   int32
	}{
		"as said":                          {sample(), live(5), new(int32(3)), 3},
		"the autoscaler's":                 {auto(nil), live(5), nil, 5},
		"the autoscaler's first":           {auto(new(int32(2))), nil, new(int32(2)), 2},
		"an autoscaler begins not at zero": {auto(new(int32(2))), live(0), new(int32(2)), 2},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.states, scale(tc.w, tc.live)); diff != "" {
				t.Errorf("stated (-want +got):\n%s", diff)
			}
			if got := scaled(tc.w, tc.live); got != tc.want {
				t.Errorf("there should be %d, want %d", got, tc.want)
			}
		})
	}
}

func TestReport_Exposed(t *testing.T) {
	ingress := func(addresses ...string) *networkingv1.Ingress {
		i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "webserver-sample"}}
		for _, a := range addresses {
			i.Status.LoadBalancer.Ingress = append(i.Status.LoadBalancer.Ingress, networkingv1.IngressLoadBalancerIngress{IP: a})
		}
		return i
	}
	route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "webserver-sample"}}
	byIngress := &common.Expose{Type: common.ExposeIngress, Hosts: []string{"a.example", "b.example"}, Path: "/shop"}
	byGateway := &common.Expose{Type: common.ExposeGateway, Hosts: []string{"a.example"}, Gateway: &common.ExposeGatewayOptions{ParentRef: common.GatewayReference{Name: "g", SectionName: "https"}}}
	inside := "Cluster http://webserver-sample-service.default.svc"
	for name, tc := range map[string]struct {
		expose *common.Expose
		o      Observed
		want   string
		urls   []string
	}{
		"not asked for":     {nil, Observed{}, "", nil},
		"taken":             {byIngress, Observed{Children: workload.Children{Ingress: ingress("192.0.2.1")}}, "True Accepted", []string{"Ingress http://a.example/shop", "Ingress http://b.example/shop"}},
		"no Gateway looked": {byGateway, Observed{Children: workload.Children{Route: route}}, "False Waiting", []string{"Gateway https://a.example"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			w.Spec.Expose = tc.expose
			w.Status.Conditions = []metav1.Condition{{Type: "Exposed", Status: "True", Reason: "Accepted"}}
			tc.o.Deployment = liveDeployment(allAvailable(3))
			report(w, tc.o, outcome(nil, tc.o.Deployment, liveService(func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 0 })), platform)
			if got := brief(w)["Exposed"]; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if got := brief(w)["Ready"]; got != "True Serving" {
				t.Errorf("Ready is %s: it does not depend on who leads here", got)
			}
			var urls []string
			for _, a := range w.Status.Addresses {
				urls = append(urls, string(a.Type)+" "+a.URL)
			}
			if diff := cmp.Diff(append(tc.urls, inside), urls); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReport_ConfigValidOnlyForGeneratedConfigurations(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*webserverv1.WebServer)
		roll   func(*appsv1.Deployment)
		want   string
	}{
		"the image's own":    {func(*webserverv1.WebServer) {}, rolledOut, ""},
		"generated":          {func(w *webserverv1.WebServer) { w.Spec.TLS = &webserverv1.TLS{} }, rolledOut, "True Tested"},
		"generated, rolling": {func(w *webserverv1.WebServer) { w.Spec.TLS = &webserverv1.TLS{} }, underway, "Unknown Testing"},
		"in no pod": {func(w *webserverv1.WebServer) {
			w.Spec.TLS, w.Spec.Replicas = &webserverv1.TLS{}, new(int32(0))
		}, rolledOut, "Unknown Testing"},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			tc.change(w)
			pass(t, w, Observed{}, tc.roll)
			if got := brief(w)["ConfigValid"]; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	w := referring("cfg", "", "")
	_, err := desired(w, Observed{}, platform)
	report(w, Observed{}, outcome(err, nil, nil), platform)
	if got := brief(w)["ConfigValid"]; got != "Unknown Testing" {
		t.Errorf("of a ConfigMap that is not there: %q", got)
	}
}

func typeOf(o client.Object) string { return fmt.Sprintf("%T", o) }

// A ConfigMap that breaks every object must not reach those that wait when they are
// scaled, by a user or by an autoscaler.
func TestShared_ScalingStartsNoRolloutThatWaits(t *testing.T) {
	limited := platform
	limited.SharedRollouts = 1
	for name, tc := range map[string]struct {
		edit   func(*webserverv1.WebServer)
		starts bool
	}{
		"nothing":  {func(*webserverv1.WebServer) {}, false},
		"replicas": {func(w *webserverv1.WebServer) { w.Spec.Replicas = new(int32(5)) }, false},
		"image":    {func(w *webserverv1.WebServer) { w.Spec.Image = "nginx:1.25.1" }, true},
		"another ConfigMap": {func(w *webserverv1.WebServer) {
			w.Spec.Config.ConfigMapRef.Name = "other"
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			busy := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "busy", Annotations: map[string]string{naming.AnnotationSharedRollout: "h"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: webserverv1.GroupVersion.String(), Kind: webserverv1.Kind, Name: "busy", Controller: new(true)}},
			}}
			w := referring("cfg", "", "")
			busy.Namespace, w.Generation = w.Namespace, 1
			o, _ := pass(t, w, sourced("return 201;"), rolledOut)
			limiter := Kind(limited).Limiter
			limiter.Run(t.Context(), fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(busy).Build(), webserverv1.Kind, nil)
			limit := func() bool {
				m := kind(limited).Model(w, o)
				limiter.Limit(w, m)
				return m.Decision.StartsRollout(o.Deployment)
			}
			if limit() {
				t.Error("it is rolled out before anything has changed")
			}
			o.Sources = sourced("retrun 202;").Sources
			o.Sources["other"] = has1("other", "server.conf", "return 203;")["other"]
			if limit() {
				t.Error("the change of the ConfigMap is rolled out")
			}
			w.Generation++
			tc.edit(w)
			if got := limit(); got != tc.starts {
				t.Errorf("it is rolled out: %v, want %v", got, tc.starts)
			}
		})
	}
}

// While pods listen on different ports, the Service has to resolve the name in each of them.
func TestService_FollowsThePortsOfThePods(t *testing.T) {
	w := sample()
	o, _ := pass(t, w, Observed{}, rolledOut)
	podOf := func(d *appsv1.Deployment, name string) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: d.Spec.Template.Annotations}, Spec: d.Spec.Template.Spec}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return p
	}
	earlier := podOf(o.Deployment, "earlier")
	o.Pods = []corev1.Pod{earlier}
	target := func(step string, want intstr.IntOrString) {
		t.Helper()
		if got := o.Service.Spec.Ports[0].TargetPort; got != want {
			t.Errorf("%s: the Service routes to %s, want %s", step, &got, &want)
		}
	}
	target("port 80", intstr.FromInt32(80))
	w.Spec.ContainerPort = new(int32(8080))
	o, _ = pass(t, w, o, func(*appsv1.Deployment) {})
	target("rolling out", intstr.FromString("http"))
	o.Pods = []corev1.Pod{earlier, podOf(o.Deployment, "later")}
	o, _ = pass(t, w, o, func(*appsv1.Deployment) {})
	target("pods of both", intstr.FromString("http"))
	o.Pods = o.Pods[1:]
	o, _ = pass(t, w, o, rolledOut)
	target("rolled out", intstr.FromInt32(8080))
	w.Spec.Rollout = &common.Rollout{PinnedRevision: new(int64(1))}
	o, _ = pass(t, w, o, func(*appsv1.Deployment) {})
	target("rolling back", intstr.FromString("http"))
}

// Another change before the pods without TLS have ended must not take away the port for https,
// whose node port would be another one when it comes back.
func TestService_KeepsHTTPSWhenTheSpecChangesAgain(t *testing.T) {
	for name, earlierEnds := range map[string]bool{"while earlier pods end": true, "while they are replaced": false} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			o, _ := pass(t, w, Observed{}, rolledOut)
			podOf := func(name string) corev1.Pod {
				template := o.Deployment.Spec.Template
				p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: template.Annotations}, Spec: template.Spec}
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
				return p
			}
			earlier := podOf("earlier")
			w.Spec.TLS = &webserverv1.TLS{SecretRef: webserverv1.SecretReference{Name: "tls"}}
			w.Generation++
			o, _ = pass(t, w, o, func(*appsv1.Deployment) {})
			if earlierEnds {
				earlier.DeletionTimestamp = &metav1.Time{Time: o.Now}
			}
			o.Pods = []corev1.Pod{earlier, podOf("later")}
			o, _ = pass(t, w, o, func(*appsv1.Deployment) {})
			if httpsPort(o.Service).Port != tlsPort {
				t.Fatal("no port for https")
			}
			w.Spec.Image = "nginx:9.9.9"
			w.Generation++
			if o, _ = pass(t, w, o, func(*appsv1.Deployment) {}); httpsPort(o.Service).Port != tlsPort {
				t.Error("the Service has lost its port for https")
			}
		})
	}
}
