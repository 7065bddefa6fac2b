package webserver

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
)

// servedSite is a WebServer whose content is kept, in a cluster whose pods follow its Deployment.
type servedSite struct {
	t *testing.T
	w *webserverv1.WebServer
	o Observed
	// mounts returns the version of a volume.
	mounts func(corev1.Volume) string
}

// keeping returns a site that serves the first version.
func keeping(t *testing.T, content func(version string) webserverv1.ContentSource, mounts func(o Observed, v corev1.Volume) string) (*servedSite, func(version string) string) {
	t.Helper()
	s := &servedSite{t: t, w: sample()}
	s.mounts = func(v corev1.Volume) string { return mounts(s.o, v) }
	publish := func(version string) string {
		c := content(version)
		c.Keep = &webserverv1.Keep{Revisions: 2, Paths: []webserverv1.KeptPath{"/assets/"}}
		s.w.Spec.Content = &c
		s.w.Generation++
		return s.pass(underway)
	}
	publish("v1")
	s.settle()
	return s, publish
}

func imageSite(t *testing.T) (*servedSite, func(version string) string) {
	t.Helper()
	return keeping(t, func(v string) webserverv1.ContentSource {
		return webserverv1.ContentSource{Image: &webserverv1.ImageSource{Reference: "site:" + v}}
	}, func(_ Observed, v corev1.Volume) string { return strings.TrimPrefix(v.Image.Reference, "site:") })
}

func filesSite(t *testing.T) (*servedSite, func(version string) string) {
	t.Helper()
	return keeping(t, func(v string) webserverv1.ContentSource {
		return webserverv1.ContentSource{Files: map[string]webserverv1.FileText{"index.html": webserverv1.FileText(v)}}
	}, func(o Observed, v corev1.Volume) string {
		for _, c := range o.Snapshots {
			if c.Name == v.ConfigMap.Name {
				return c.Data["index.html"]
			}
		}
		return "missing"
	})
}

// pass reconciles, and returns what the Deployment mounts as its own content, as the next
// one, and as earlier ones.
func (s *servedSite) pass(roll func(*appsv1.Deployment)) string {
	s.t.Helper()
	s.o, _ = pass(s.t, s.w, s.o, roll)
	return s.contents()
}

func (s *servedSite) contents() string {
	all := map[string]string{}
	for _, v := range s.o.Deployment.Spec.Template.Spec.Volumes {
		if version, ok := strings.CutPrefix(v.Name, "content"); ok {
			all[strings.TrimPrefix(version, "-")] = s.mounts(v)
		}
	}
	return strings.TrimRight(fmt.Sprintf("%s next=%s earlier=%s,%s", all[""], all["next"], all["1"], all["2"]), ",")
}

// settle is replace, and what follows is rolled out too.
func (s *servedSite) settle() string {
	s.t.Helper()
	got := s.replace()
	s.pass(rolledOut)
	return got
}

// replace replaces all pods by those of the Deployment, and reconciles.
func (s *servedSite) replace() string {
	s.t.Helper()
	s.o.Pods = []corev1.Pod{s.pod("new")}
	rolledOut(s.o.Deployment)
	return s.pass(underway)
}

// pod returns a ready pod of the Deployment.
func (s *servedSite) pod(name string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: s.o.Deployment.Spec.Template.Annotations},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue},
		}},
	}
}

func (s *servedSite) want(step, want, got string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s: the pods mount %q, want %q", step, got, want)
	}
}

// TestKeep_ServesAssetsBeforePages follows changes of all forms of content: pods get the
// next content before any of them has its pages, and keep the earlier ones.
func TestKeep_ServesAssetsBeforePages(t *testing.T) {
	for name, of := range map[string]func(*testing.T) (*servedSite, func(string) string){"image": imageSite, "files": filesSite} {
		t.Run(name, func(t *testing.T) {
			s, publish := of(t)
			s.w.Spec.Rollout = &common.Rollout{RevisionHistoryLimit: new(int32(0))}
			s.pass(rolledOut)
			s.settle()
			old := s.pod("old")
			s.want("a change", "v1 next=v2 earlier=", publish("v2"))
			if got := brief(s.w)["Ready"]; got != "False Progressing" {
				t.Errorf("Ready is %s", got)
			}
			s.want("while pods are replaced", "v1 next=v2 earlier=", s.pass(underway))
			now := metav1.Now()
			old.DeletionTimestamp = &now
			s.o.Pods = []corev1.Pod{s.pod("new"), old}
			s.want("while an old pod drains", "v1 next=v2 earlier=", s.pass(rolledOut))
			if got := brief(s.w)["Ready"]; got != "False Progressing" {
				t.Errorf("Ready is %s", got)
			}
			s.want("all pods have it", "v2 next= earlier=v1", s.settle())
			s.want("nothing changes", "v2 next= earlier=v1", s.settle())
			if got := brief(s.w)["Ready"]; got != "True Serving" {
				t.Errorf("Ready is %s", got)
			}
			publish("v3")
			s.want("a third", "v3 next= earlier=v2,v1", s.settle())
			s.settle()
			s.want("a fourth", "v3 next=v4 earlier=v2,v1", publish("v4"))
			s.want("a fifth before the fourth", "v3 next=v5 earlier=v2,v1", publish("v5"))
			s.want("the first is forgotten", "v5 next= earlier=v3,v2", s.settle())
			s.settle()
			s.want("back to an earlier one", "v3 next= earlier=v5,v2", publish("v3"))
			s.w.Spec.Image = "nginx:1.23.0"
			s.w.Generation++
			s.want("another image", "v3 next= earlier=v5,v2", s.pass(underway))
			s.w.Spec.Content.Keep = nil
			s.w.Generation++
			s.want("no longer kept", "v3 next= earlier=", s.pass(underway))
		})
	}
}

// fail lets the pods of the Deployment fail, and reconciles until that has a consequence.
func (s *servedSite) fail() string {
	s.t.Helper()
	s.o.Pods = append(s.o.Pods, refusing(s.o.Deployment, "nginx: [emerg] no"))
	s.pass(underway) // records the failure
	return s.pass(underway)
}

func TestKeep_RollsBack(t *testing.T) {
	s, publish := imageSite(t)
	publish("v2")
	s.want("the first step fails", "v1 next= earlier=", s.fail())
	s.settle()
	if got := brief(s.w)["Ready"]; got != "False RolledBack" {
		t.Errorf("Ready is %s", got)
	}
	publish("v3")
	s.want("another content", "v3 next= earlier=v1", s.replace())
	s.want("the second step fails", "v1 next= earlier=v3", s.fail())
	s.settle()
	if got := brief(s.w)["Ready"]; got != "False RolledBack" {
		t.Errorf("Ready is %s", got)
	}
	s.want("a correction", "v1 next=v4 earlier=v3", publish("v4"))
	s.want("it is rolled out", "v4 next= earlier=v1,v3", s.replace())
	s.o.Pods = append(s.o.Pods, refusing(s.o.Deployment, "no"))
	s.want("a correction during the second step", "v1 next=v5 earlier=v4,v3", publish("v5"))
}

func TestKeep_Halts(t *testing.T) {
	s, publish := imageSite(t)
	s.w.Spec.Rollout = &common.Rollout{OnFailure: common.OnFailureHalt}
	publish("v2")
	s.want("the first step fails", "v1 next=v2 earlier=", s.fail())
	if got := brief(s.w)["Stalled"]; got != "True RolloutFailed" {
		t.Errorf("Stalled is %s", got)
	}
	s.want("a correction", "v1 next=v3 earlier=", publish("v3"))
	s.want("it serves", "v3 next= earlier=v1", s.settle())
}

// TestKeep_PinnedAndUnknown checks a pinned revision, and content that cannot be determined
// in the middle of a change.
func TestKeep_PinnedAndUnknown(t *testing.T) {
	s, publish := imageSite(t)
	for _, v := range []string{"v2", "v3", "v4"} {
		publish(v)
		s.settle()
		s.settle()
	}
	s.w.Spec.Rollout = &common.Rollout{PinnedRevision: new(int64(1))}
	s.want("pinned, and forgotten", "v4 next=v1 earlier=v3,v2", s.pass(underway))
	s.want("pinned", "v1 next= earlier=v4,v3", s.settle())

	w, o := s.w.DeepCopy(), s.o
	w.Spec.Rollout = nil
	w.Spec.Content = &webserverv1.ContentSource{ConfigMapRef: &webserverv1.ConfigMapReference{Name: "missing"}, Keep: w.Spec.Content.Keep}
	plan, err := desired(w, o, platform)
	if err == nil {
		t.Fatal("the ConfigMap is not reported as missing")
	}
	for _, in := range plan.Apply {
		if in.Kind == "Deployment" {
			raw, err := in.Object(w, ownerKind)
			if err != nil {
				t.Fatal(err)
			}
			s.o = see(t, o, raw)
		}
	}
	s.want("unknown", "v1 next= earlier=v4,v3", s.contents())
}
