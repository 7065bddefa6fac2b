package rollout

import (
	"regexp"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

func TestSnapshots_KeepReferencedOnes(t *testing.T) {
	named := func(what string) string { return "web-" + what + "-0123456789abcdef" }
	live := func(what, source string) *corev1.ConfigMap {
		name := named(what)
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{naming.AnnotationSource: source}}}
	}
	kept := func(template string) Revision {
		template = regexp.MustCompile(`web-([a-z]+)`).ReplaceAllString(template, named("$1"))
		return storedIn(&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(`{"template":{"spec":` + template + `}}`)}})
	}
	copied := live("copied", "a")
	copied.Name = "web-env-mine"
	all := []*corev1.ConfigMap{live("env", "a"), live("from", "a"), live("mounted", "a"), live("projected", "a"), live("init", "a"), live("old", "a"), live("none", ""), live("new", "a"), copied}
	d := Decision{question: Input{Namespace: "ns", Name: "web"}, Kept: []Revision{
		kept(`{"containers":[{"env":[{"name":"A","valueFrom":{"configMapKeyRef":{"name":"web-env","key":"k"}}}],"envFrom":[{"configMapRef":{"name":"web-from"}}]}]}`),
		kept(`{"initContainers":[{"envFrom":[{"configMapRef":{"name":"web-init"}}]}],"volumes":[{"configMap":{"name":"web-mounted"}},{"projected":{"sources":[{"configMap":{"name":"web-projected"}},{"secret":{"name":"s"}}]}}]}`),
		kept(`{"volumes":[{"configMap":{"name":"web-new"}}]}`),
	}}
	stays := func(d Decision) (stay, prune []string, err error) {
		in, out, err := d.Snapshots([]configsource.Snapshot{{Name: named("new")}, {Name: named("unused")}}, all, nil)
		for _, i := range in {
			stay = append(stay, i.Name)
		}
		for _, o := range out {
			prune = append(prune, o.GetName())
		}
		return stay, prune, err
	}
	stay, prune, err := stays(d)
	if want := []string{named("new"), named("env"), named("from"), named("init"), named("mounted"), named("projected")}; err != nil || !slices.Equal(stay, want) || !slices.Equal(prune, []string{named("old")}) {
		t.Errorf("%v stay, %v go, error %v", stay, prune, err)
	}
	if _, prune, err = stays(Decision{}); err != nil || len(prune) != 0 {
		t.Errorf("nothing is decided: %v go, error %v", prune, err)
	}
	d.Kept = append(d.Kept, kept(`[]`))
	if _, prune, err = stays(d); err == nil || len(prune) != 0 {
		t.Errorf("a revision cannot be read: %v go, error %v", prune, err)
	}
}
