package converge

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
)

func TestForegroundDeletions_Includes(t *testing.T) {
	const foreground, orphan = metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents
	deleted := func(finalizers ...string) *webserverv1.WebServer {
		return object(func(w *webserverv1.WebServer) { w.DeletionTimestamp, w.Finalizers = new(metav1.Now()), finalizers })
	}
	if w := deleted(foreground); !new(foregroundDeletions).includes(w) {
		t.Error("the finalizer itself does not suffice")
	}
	for name, tc := range map[string]struct {
		versions []*webserverv1.WebServer // the first is in the initial list
		want     bool
	}{
		"in the foreground":                    {[]*webserverv1.WebServer{object(), deleted(foreground), deleted()}, true},
		"before the operator was started":      {[]*webserverv1.WebServer{deleted(foreground), deleted()}, true},
		"in the background":                    {[]*webserverv1.WebServer{object(), deleted()}, false},
		"with orphans":                         {[]*webserverv1.WebServer{object(), deleted(orphan), deleted()}, false},
		"in the foreground, then with orphans": {[]*webserverv1.WebServer{object(), deleted(foreground), deleted(orphan), deleted()}, false},
		"the finalizer without a deletion":     {[]*webserverv1.WebServer{object(func(w *webserverv1.WebServer) { w.Finalizers = []string{foreground} }), object()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var d foregroundDeletions
			h, q := handleObject(&d), &prioritiesOf{}
			last := tc.versions[0]
			h.Create(t.Context(), event.CreateEvent{Object: last, IsInInitialList: true}, q)
			for _, w := range tc.versions[1:] {
				h.Update(t.Context(), event.UpdateEvent{ObjectOld: last, ObjectNew: w}, q)
				last = w
			}
			if got := d.includes(last); got != tc.want {
				t.Errorf("got %v", got)
			}
			if h.Delete(t.Context(), event.DeleteEvent{Object: last}, q); len(d.uids) > 0 {
				t.Errorf("%v is remembered after the end of the object", d.uids)
			}
		})
	}
}
