package apply

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// snapshot returns an intent that identifies what it states.
func snapshot(content string) Intent {
	in := New(corev1ac.ConfigMap("copy", "ns").WithImmutable(true).WithData(map[string]string{"a": content}),
		func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
	in.Content = content
	return in
}

// compared reports whether an intent was compared with the live child, for which it
// has to be encoded.
func compared(in Intent) bool { return metaOf(in.config).Annotations[naming.AnnotationApplied] != "" }

func TestApplier_ComparesKnownContentOnlyWithNewVersions(t *testing.T) {
	w, _ := worldWithNamespace(t)
	apply := func(what string, o Owner, in Intent, wantCompared bool, want ...string) {
		t.Helper()
		if _, err := w.applier.Apply(t.Context(), o, in); err != nil {
			t.Fatal(err)
		}
		w.wrote(want...)
		diff(t, what, wantCompared, compared(in))
	}
	edit := func(change func(*corev1.ConfigMap)) { t.Helper(); byHand(w, "copy", &corev1.ConfigMap{}, change) }

	apply("new", owner(), snapshot("b"), true, "apply")
	apply("written before", owner(), snapshot("b"), false)
	if live, differs, err := w.applier.NeedsApply(t.Context(), owner(), snapshot("b")); err != nil || differs || live.GetName() != "copy" {
		t.Errorf("a paused owner: got %v, %v, %v", live, differs, err)
	}
	w.restart()
	apply("after a restart", owner(), snapshot("b"), true)
	apply("compared before", owner(), snapshot("b"), false)

	edit(func(c *corev1.ConfigMap) { c.Labels["added"] = "by hand" })
	apply("a harmless change", owner(), snapshot("b"), true)
	apply("a harmless change, compared before", owner(), snapshot("b"), false)
	edit(func(c *corev1.ConfigMap) { c.Data["a"] = "c" })
	apply("a change", owner(), snapshot("b"), true, "apply")
	apply("a repaired change", owner(), snapshot("b"), false)
	apply("other content", owner(), snapshot("d"), true, "apply")

	o := ownerWith(common.DeletionPolicyOrphan)
	w.restart()
	apply("another policy", o, snapshot("d"), true, "apply")
	apply("another policy, compared before", o, snapshot("d"), false)

	if err := w.server.Delete(t.Context(), stored(w, "copy", &corev1.ConfigMap{})); err != nil {
		t.Fatal(err)
	}
	apply("deleted", o, snapshot("d"), true, "apply")
	apply("created again", o, snapshot("d"), false)
}

// A webhook keeps changing the child: what was written is not what it holds.
func TestApplier_ComparesContestedContent(t *testing.T) {
	w := newWorld(t)
	w.mutate = func(o client.Object) { o.(*corev1.ConfigMap).Data["a"] = "changed" }
	w.pass(snapshot("b"))
	in := snapshot("b")
	w.pass(in)
	diff(t, "compared", true, compared(in))
}

func TestApplier_ForgetsComparedChildren(t *testing.T) {
	w := newWorld(t)
	w.pass(snapshot("b"))
	w.applier.ForgetOthers(owner(), nil)
	in := snapshot("b")
	w.pass(in)
	diff(t, "compared", true, compared(in))
}
