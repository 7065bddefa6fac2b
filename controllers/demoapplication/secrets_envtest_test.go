//go:build envtest

package demoapplication

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

func password(ns, name, is string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string][]byte{"password": []byte(is)}}
}

func TestDemoApplication_RestartsWhenASecretChanges(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subjectWith(readingSecrets())).Start()
	a, d, s := application(l.Namespace, "web", following), &appsv1.Deployment{}, &corev1.Secret{}
	const (
		read     = "get secrets 200"
		deployed = "patch deployments 200"
		kept     = "patch controllerrevisions 201"
		status   = "patch demoapplications/status 200"
	)
	serves := func(revision int64) {
		t.Helper()
		l.Until("the revision to serve", a, "web", func() bool {
			return a.Status.Revisions != nil && a.Status.Revisions.LastHealthy == revision && a.Status.Revisions.Current == revision &&
				meta.IsStatusConditionTrue(a.Status.Conditions, common.ConditionReady)
		})
	}
	digest := func() string {
		t.Helper()
		l.Get(d, "web")
		return d.Spec.Template.Annotations[naming.AnnotationSecrets]
	}
	l.Create(a)
	if m := l.Stalled(a, "web", common.ReasonReferenceNotFound); !strings.Contains(m, `Secret "db" (spec.envFrom[0]) does not exist`) {
		t.Errorf("message %q", m)
	}
	l.Requests()

	// No pods were created that would have waited for it, so none is replaced.
	l.Create(password(l.Namespace, "db", "hunter1"))
	l.Create(password(l.Namespace, "bystander", "hunter1"))
	serves(1)
	reads := 0
	for _, r := range l.Requests() {
		if r.Resource == "secrets" {
			reads++
		}
		if strings.Contains(string(r.Body), "hunter") || strings.Contains(string(r.Body), "aHVudGVy") { // in base64
			t.Errorf("the content is written by %s", r)
		}
	}
	if reads != 1 {
		t.Errorf("it came: %d reads of Secrets, want 1", reads)
	}
	first := digest()
	if first == "" {
		t.Error("the pods say nothing about their Secrets")
	}

	l.Edit(s, "bystander", func() { s.Data["password"] = []byte("hunter2") })
	l.Expect("a change of an unreferenced Secret")
	l.Edit(s, "db", func() { s.Labels = map[string]string{"team": "a"} })
	l.Expect("labels", read)
	l.Edit(s, "db", func() { s.Annotations = map[string]string{"touched": "today"} })
	l.Expect("a touch", read)
	l.Restart()
	l.Expect("restart", read)

	l.Edit(s, "db", func() { s.Data["password"] = []byte("hunter2") })
	serves(2)
	l.Expect("a change", read, deployed, kept, status, status)
	second := digest()
	if second == first || second == "" {
		t.Errorf("digest %q after %q", second, first)
	}
	l.Restart()
	l.Expect("restart after a change", read)

	l.Edit(a, "web", func() { a.Spec.Rollout.PinnedRevision = new(int64(1)) })
	serves(1)
	if got := digest(); got != first {
		t.Errorf("revision 1 has digest %q, had %q", got, first)
	}
	l.Edit(a, "web", func() { a.Spec.Rollout.PinnedRevision = nil })
	serves(2)
	l.Requests()

	if err := l.Admin.Delete(t.Context(), password(l.Namespace, "db", "")); err != nil {
		t.Fatal(err)
	}
	l.Stalled(a, "web", common.ReasonReferenceNotFound)
	l.Expect("it went: the pods are left as they are", status)
	l.Restart()
	l.Expect("restart without it")
	if got := digest(); got != second {
		t.Errorf("the pods changed when it went: %q", got)
	}
}

// If the platform does not allow the operator to read Secrets, it does not request
// any.
func TestDemoApplication_ReadsNoSecretsUnlessAllowed(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	a, d, s := application(l.Namespace, "web", following), &appsv1.Deployment{}, &corev1.Secret{}
	l.Create(a)
	l.Ready(a, "web")
	l.Create(password(l.Namespace, "db", "hunter1"))
	l.Edit(s, "db", func() { s.Data["password"] = []byte("hunter2") })
	l.Restart()
	for _, r := range l.Requests() {
		if r.Resource == "secrets" {
			t.Errorf("it asks: %s", r)
		}
	}
	if l.Get(d, "web"); d.Spec.Template.Annotations[naming.AnnotationSecrets] != "" || a.Status.Revisions.Current != 1 {
		t.Errorf("the template has %v", d.Spec.Template.Annotations)
	}
}
