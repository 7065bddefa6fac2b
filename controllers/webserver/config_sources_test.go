package webserver

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/judge"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// referring is a WebServer that refers to ConfigMaps for both.
func referring(config, key, content string) *webserverv1.WebServer {
	w := sample()
	if config != "" {
		w.Spec.Config = &webserverv1.ConfigSource{ConfigMapRef: &webserverv1.ConfigMapKeyReference{Name: config, Key: key}}
	}
	if content != "" {
		w.Spec.Content = &webserverv1.ContentSource{ConfigMapRef: &webserverv1.ConfigMapReference{Name: content}}
	}
	return w
}

func has1(name, key, text string) map[string]configsource.Source {
	return map[string]configsource.Source{name: {Found: true, Version: "u/1", Content: &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{key: text},
	}}}
}

func TestDesired_KeepsTheDeploymentIfAReferenceIsMissing(t *testing.T) {
	for name, tc := range map[string]struct {
		w       *webserverv1.WebServer
		sources map[string]configsource.Source
		reason  string
		message []string
	}{
		"no config":      {referring("cfg", "", ""), nil, "ReferenceNotFound", []string{"spec.config.configMapRef", `"cfg"`}},
		"no content":     {referring("", "", "pages"), nil, "ReferenceNotFound", []string{"spec.content.configMapRef", `"pages"`}},
		"looked in vain": {referring("cfg", "", ""), map[string]configsource.Source{"cfg": {}}, "ReferenceNotFound", []string{`"cfg"`}},
		"one of two":     {referring("cfg", "", "pages"), has1("cfg", "server.conf", ""), "ReferenceNotFound", []string{`"pages"`}},
		"no default key": {referring("cfg", "", ""), has1("cfg", "nginx.conf", "x;"), "ConfigMapKeyNotFound", []string{`"cfg"`, `"server.conf"`}},
		"no such key":    {referring("cfg", "mine", ""), has1("cfg", "server.conf", "x;"), "ConfigMapKeyNotFound", []string{`"mine"`}},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := desired(tc.w, Observed{Sources: tc.sources}, platform)
			v := fault.Classify(err)
			if v.Class != fault.Stall || v.Reason != tc.reason {
				t.Fatalf("got class %v, reason %q: %v", v.Class, v.Reason, err)
			}
			for _, m := range tc.message {
				if !strings.Contains(v.Message, m) {
					t.Errorf("%q does not name %s", v.Message, m)
				}
			}
			if got := kinds(plan.Apply); !slices.Equal(got, []string{"Service", "PodDisruptionBudget"}) {
				t.Errorf("%v are written, want what needs no template", got)
			}
		})
	}
}

func kinds(ins []apply.Intent) []string {
	var all []string
	for _, in := range ins {
		all = append(all, in.Kind)
	}
	return all
}

// mounting mounts the ConfigMap v in two ways.
func mounting(w *webserverv1.WebServer, optional bool) *webserverv1.WebServer {
	w.Spec.Pod = &common.Pod{
		Volumes: []common.Volume{
			{Name: "a", ConfigMap: &common.ConfigMapVolume{Name: "v", Optional: &optional}},
			{Name: "b", Projected: &common.ProjectedVolume{Sources: []common.VolumeProjection{{ConfigMap: &common.ObjectProjection{Name: "v", Optional: &optional}}}}},
		},
		VolumeMounts: []common.VolumeMount{{Name: "a", MountPath: "/a"}, {Name: "b", MountPath: "/b"}},
	}
	return w
}

func unfollowing(w *webserverv1.WebServer) *webserverv1.WebServer {
	w.Spec.Rollout = &common.Rollout{RestartOnConfigChange: new(false)}
	return w
}

func TestSources_References(t *testing.T) {
	for name, tc := range map[string]struct {
		w    *webserverv1.WebServer
		want []configsource.Reference
	}{
		"none":             {sample(), nil},
		"both":             {referring("z", "", "a"), []configsource.Reference{{Name: "z", Key: "server.conf"}, {Name: "a"}}},
		"the same twice":   {referring("a", "k", "a"), []configsource.Reference{{Name: "a", Key: "k"}, {Name: "a"}}},
		"a volume":         {mounting(sample(), false), []configsource.Reference{{Name: "v"}}},
		"a volume, live":   {unfollowing(mounting(sample(), false)), nil},
		"the rest, tested": {unfollowing(referring("z", "", "a")), []configsource.Reference{{Name: "z", Key: "server.conf"}, {Name: "a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, sourcesOf(tc.w).references()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// names returns the names of the snapshots that are needed.
func names(t *testing.T, w *webserverv1.WebServer, sources map[string]configsource.Source) []string {
	t.Helper()
	m, err := sourcesOf(w).resolve(Observed{Sources: sources})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range m.snapshots() {
		all = append(all, c.Name)
	}
	return all
}

// The same content has the same name, whatever its source, and different content
// has a different name, so that an earlier pod template finds its own content.
func TestSnapshots_AreNamedByTheirContent(t *testing.T) {
	inline := sample()
	inline.Spec.Config = &webserverv1.ConfigSource{Inline: "return 204;"}
	own := sample()
	own.Spec.Image = "registry.example/shop:1"
	if got := names(t, own, nil); got != nil {
		t.Errorf("five lines and an image of one's own make the copies %v", got)
	}
	a, b := names(t, inline, nil), names(t, referring("cfg", "", ""), has1("cfg", "server.conf", "return 204;"))
	if !slices.Equal(a, b) || len(a) != 1 || !regexp.MustCompile(`^webserver-sample-config-[0-9a-f]{16}$`).MatchString(a[0]) {
		t.Errorf("the same text is called %v and %v", a, b)
	}
	if other := names(t, referring("cfg", "", ""), has1("cfg", "server.conf", "return 205;")); slices.Equal(a, other) {
		t.Errorf("two texts are called %v", a)
	}
}

// The source that a snapshot records is how a restarted operator finds the content
// again without a request.
func TestSnapshots_RecordTheirSource(t *testing.T) {
	inline := sample()
	inline.Spec.Config = &webserverv1.ConfigSource{Inline: "return 204;"}
	inline.Spec.Content = &webserverv1.ContentSource{Files: map[string]webserverv1.FileText{"a": "b"}}
	sources := has1("cfg", "k", "return 204;")
	sources["pages"], sources["v"] = has1("pages", "a", "b")["pages"], has1("v", "c", "d")["v"]
	for name, tc := range map[string]struct {
		w    *webserverv1.WebServer
		want []string
	}{
		"the spec's own":  {inline, []string{"spec", "spec"}},
		"from ConfigMaps": {mounting(referring("cfg", "k", "pages"), false), []string{"cfg@u/1#k=server.snippet", "pages@u/1", "v@u/1"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := sourcesOf(tc.w).resolve(Observed{Sources: sources})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range m.snapshots() {
				got = append(got, c.Source)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDesired_VolumesOfConfigMaps(t *testing.T) {
	there := has1("v", "c", "d")
	for name, tc := range map[string]struct {
		w       *webserverv1.WebServer
		sources map[string]configsource.Source
		copied  bool
		reason  string
	}{
		"there":                {mounting(sample(), false), there, true, ""},
		"missing":              {mounting(sample(), false), nil, false, "ReferenceNotFound"},
		"missing and optional": {mounting(sample(), true), nil, false, ""},
		"live":                 {unfollowing(mounting(sample(), false)), nil, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, m, err := decide(tc.w, Observed{Sources: tc.sources}, platform)
			if v := fault.Classify(err); v.Reason != tc.reason {
				t.Fatalf("got %v", err)
			}
			if err != nil {
				return
			}
			want := "v"
			if tc.copied {
				want = m.volumes["v"].Name
			}
			d, _ := typed(t, tc.w, Observed{Sources: tc.sources})
			volumes := d.Spec.Template.Spec.Volumes
			a, b := volumes[len(volumes)-2], volumes[len(volumes)-1]
			if want == "" || a.ConfigMap.Name != want || b.Projected.Sources[0].ConfigMap.Name != want {
				t.Errorf("mounts %s and %s, want %q", a.ConfigMap.Name, b.Projected.Sources[0].ConfigMap.Name, want)
			}
		})
	}
}

// A change of the content has to replace the pods, because the snapshots that they
// mount are immutable.
func TestDesired_PodsMountOnlySnapshots(t *testing.T) {
	w := referring("cfg", "", "pages")
	w.Spec.TLS = &webserverv1.TLS{SecretRef: webserverv1.SecretReference{Name: "cert"}}
	w.Spec.Monitoring = &common.Monitoring{Enabled: true}
	sources := has1("cfg", "server.conf", "return 204;")
	sources["pages"] = has1("pages", "index.html", "hello")["pages"]
	o := Observed{Sources: sources}
	copied := names(t, w, sources)
	d, _ := typed(t, w, o)
	for _, v := range d.Spec.Template.Spec.Volumes {
		if c := v.ConfigMap; c != nil && !slices.Contains(copied, c.Name) {
			t.Errorf("volume %s mounts %s, which is no copy", v.Name, c.Name)
		}
	}
}

// The tested container is like the one that will serve: the same image, user and
// mounts, except for the configuration with constant paths.
func TestDesired_ConfigTestMatchesTheServer(t *testing.T) {
	for name, in := range cases(t) {
		t.Run(name, func(t *testing.T) {
			w, o := in()
			d, _ := typed(t, w, o)
			pod := d.Spec.Template.Spec
			if len(pod.InitContainers) == 0 {
				if generated(w) {
					t.Error("the generated configuration is not tested")
				}
				return
			}
			test, server := pod.InitContainers[len(pod.InitContainers)-1], pod.Containers[0]
			if test.Name == judge.Container {
				test = pod.InitContainers[len(pod.InitContainers)-2]
			}
			if test.Image != server.Image {
				t.Errorf("image %s, serves with %s", test.Image, server.Image)
			}
			if test.Name != rollout.ConfigTest {
				t.Errorf("it is called %s: its failures would count as those of any container", test.Name)
			}
			if diff := cmp.Diff(server.SecurityContext, test.SecurityContext); diff != "" {
				t.Errorf("security context:\n%s", diff)
			}
			if diff := cmp.Diff(server.Resources, test.Resources); diff != "" {
				t.Errorf("resources:\n%s", diff)
			}
			if test.ImagePullPolicy != server.ImagePullPolicy {
				t.Errorf("pull policy %s, serves with %s", test.ImagePullPolicy, server.ImagePullPolicy)
			}
			for i := range test.VolumeMounts {
				if test.VolumeMounts[i].MountPath == configPath {
					test.VolumeMounts[i].Name = "config"
				}
			}
			if diff := cmp.Diff(server.VolumeMounts, test.VolumeMounts); diff != "" {
				t.Errorf("mounts (-serves +tests):\n%s", diff)
			}
			if test.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
				t.Error("nginx's message does not reach the pod's status")
			}
		})
	}
}

// The content of a Secret in a volume affects the pods. That of the certificate
// does not, because nginx reads it again for each connection, but it is checked.
func TestSecrets_OfTheSpec(t *testing.T) {
	w := sample()
	w.Spec.ImagePullSecrets = []common.LocalObjectReference{{Name: "registry"}}
	w.Spec.TLS = &webserverv1.TLS{SecretRef: webserverv1.SecretReference{Name: "cert"}}
	w.Spec.Pod = &common.Pod{Volumes: []common.Volume{
		{Name: "a", Secret: &common.SecretVolume{SecretName: "htpasswd"}},
		{Name: "b", Projected: &common.ProjectedVolume{Sources: []common.VolumeProjection{{Secret: &common.ObjectProjection{Name: "key"}}}}},
	}}
	if Kind(platform).Secrets != nil {
		t.Error("the platform configuration does not allow reading Secrets, but the kind reads them")
	}
	granted := platform
	granted.RestartOnSecretChange = true
	k := Kind(granted)
	if got := k.Secrets(w); !slices.Equal(got, []string{"htpasswd", "key", "cert"}) {
		t.Errorf("got %v", got)
	}
	type digests = map[string]configsource.SecretDigest
	digest := func(digests digests) string {
		d, _, err := decide(w, Observed{Secrets: digests}, granted)
		if err != nil {
			t.Fatal(err)
		}
		return d.Template.Annotations[naming.AnnotationSecrets]
	}
	none, one, two := digest(nil), digest(digests{"htpasswd": {Digest: "1"}, "key": {Digest: "1"}}), digest(digests{"htpasswd": {Digest: "2"}, "key": {Digest: "1"}})
	if none != "" || one == "" || two == "" || one == two {
		t.Errorf("digests %q, %q and %q", none, one, two)
	}
	if _, _, err := decide(w, Observed{Secrets: digests{"key": {Digest: "1"}}}, granted); fault.Classify(err).Reason != "ReferenceNotFound" || !strings.Contains(err.Error(), `Secret "htpasswd" (spec.pod.volumes[a]) does not exist`) {
		t.Errorf("one is missing: %v", err)
	}
	unfollowing(w)
	if got := k.Secrets(w); !slices.Equal(got, []string{"cert"}) {
		t.Errorf("asked not to: %v", got)
	}
	if got := digest(digests{}); got != "" {
		t.Errorf("asked not to: digest %q", got)
	}
}

// An unowned PodDisruptionBudget that selects the pods is sufficient. One that the
// user asks for is created nevertheless, and the consequence is reported.
func TestDesired_PodDisruptionBudgetsOfOthers(t *testing.T) {
	selecting := func(labels map[string]string) []policyv1.PodDisruptionBudget {
		return []policyv1.PodDisruptionBudget{{
			ObjectMeta: metav1.ObjectMeta{Name: "unowned"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}},
		}}
	}
	labelled := func(w *webserverv1.WebServer) {
		w.Spec.Pod = &common.Pod{Labels: map[string]common.LabelValue{"tier": "front"}}
	}
	asking := func(w *webserverv1.WebServer) {
		labelled(w)
		w.Spec.PodDisruptionBudget = &common.PodDisruptionBudget{MaxUnavailable: new(intstr.FromInt32(1))}
	}
	for name, tc := range map[string]struct {
		change func(*webserverv1.WebServer)
		theirs []policyv1.PodDisruptionBudget
		made   bool
		told   string
	}{
		"there is none":             {labelled, nil, true, ""},
		"it selects other pods":     {labelled, selecting(map[string]string{"tier": "back"}), true, ""},
		"it selects by our label":   {labelled, selecting(map[string]string{"webserver_cr": sample().Name}), false, ""},
		"it selects by the user's":  {labelled, selecting(map[string]string{"tier": "front"}), false, ""},
		"it selects what we manage": {labelled, selecting(map[string]string{naming.LabelManagedBy: naming.ManagedBy}), false, ""},
		"the spec asks for one":     {asking, selecting(map[string]string{"tier": "front"}), true, ` PodDisruptionBudget "unowned" selects the pods too, and Kubernetes does not evict pods of two budgets. Remove it, or spec.podDisruptionBudget.`},
		"the spec asks, no overlap": {asking, selecting(map[string]string{"tier": "back"}), true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			tc.change(w)
			o := Observed{Children: workload.Children{Budgets: tc.theirs, Budget: &policyv1.PodDisruptionBudget{}}}
			plan, err := desired(w, o, platform)
			if err != nil {
				t.Fatal(err)
			}
			if made := slices.Contains(kinds(plan.Apply), "PodDisruptionBudget"); made != tc.made || (len(plan.Prune) == 1) == tc.made {
				t.Errorf("there is one: %v, deleted: %v", made, plan.Prune)
			}
			pass(t, w, o, rolledOut)
			c := meta.FindStatusCondition(w.Status.Conditions, common.ConditionReady)
			if c == nil || c.Status != metav1.ConditionTrue || strings.Contains(c.Message, "two budgets") != (tc.told != "") || !strings.HasSuffix(c.Message, tc.told) {
				t.Errorf("told: %+v", c)
			}
		})
	}
}

// A failed read does not mean that the serving pods are unavailable.
func TestReport_KeepsAvailableIfAConfigMapCannotBeRead(t *testing.T) {
	w := referring("cfg", "", "")
	o := Observed{Sources: map[string]configsource.Source{"cfg": {Err: errors.New("no answer")}}}
	o.Deployment = liveDeployment(allAvailable(3))
	_, err := desired(w, o, platform)
	report(w, o, outcome(err, nil, nil), platform)
	got := brief(w)
	if !strings.HasPrefix(got["Available"], "True") || got["Ready"] != "False Error" || w.Status.ReadyReplicas != 3 {
		t.Errorf("got %v, %d replicas are ready", got, w.Status.ReadyReplicas)
	}
}

// The kubelet cannot mount a file over one of a ConfigMap.
func TestSources_LeaveTheFolderToFilesOfTheUser(t *testing.T) {
	for name, tc := range map[string]struct {
		path string
		want bool
	}{
		"another folder":    {path: "/etc/nginx/snippets", want: true},
		"the folder itself": {path: "/etc/nginx/conf.d", want: true}, // replaces that of the operator
		"a file in it":      {path: "/etc/nginx/conf.d/default.conf"},
		"a folder in it":    {path: "/etc/nginx/conf.d/more"},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			w.Spec.Image = "nginx:1.27.4"
			w.Spec.Pod = &common.Pod{
				Volumes:      []common.Volume{{Name: "site", EmptyDir: &common.EmptyDirVolume{}}},
				VolumeMounts: []common.VolumeMount{{Name: "site", MountPath: tc.path}},
			}
			if got := generated(w); got != tc.want {
				t.Errorf("configured by the operator: %v, want %v", got, tc.want)
			}
		})
	}
}
