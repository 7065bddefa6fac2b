package converge

import (
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
)

func TestDeletions_InForeground(t *testing.T) {
	const foreground, orphan = metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents
	deleted := func(finalizers ...string) *webserverv1.WebServer {
		return object(func(w *webserverv1.WebServer) { w.DeletionTimestamp, w.Finalizers = new(metav1.Now()), finalizers })
	}
	for name, tc := range map[string]struct {
		versions []*webserverv1.WebServer // the first is in the initial list
		want     bool
	}{
		"in the foreground":                    {[]*webserverv1.WebServer{object(), deleted(foreground), deleted()}, true},
		"not completed":                        {[]*webserverv1.WebServer{object(), deleted(foreground)}, true},
		"before the operator was started":      {[]*webserverv1.WebServer{deleted(foreground), deleted()}, true},
		"in the background":                    {[]*webserverv1.WebServer{object(), deleted()}, false},
		"with orphans":                         {[]*webserverv1.WebServer{object(), deleted(orphan), deleted()}, false},
		"in the foreground, then with orphans": {[]*webserverv1.WebServer{object(), deleted(foreground), deleted(orphan), deleted()}, false},
		"the finalizer without a deletion": {[]*webserverv1.WebServer{
			object(func(w *webserverv1.WebServer) { w.Finalizers = []string{foreground} }), object(), deleted(),
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for i, w := range tc.versions {
				w.ResourceVersion = strconv.Itoa(i + 1)
			}
			var d deletions
			h, q := handleObject(&d), &prioritiesOf{}
			last, current := tc.versions[0], tc.versions[len(tc.versions)-1]
			if _, known := d.inForeground(current); known {
				t.Error("known before the first event")
			}
			h.Create(t.Context(), event.CreateEvent{Object: last, IsInInitialList: true}, q)
			for _, w := range tc.versions[1:] {
				if _, known := d.inForeground(current); known {
					t.Errorf("version %s is known, and the last event was of version %s", current.ResourceVersion, last.ResourceVersion)
				}
				h.Update(t.Context(), event.UpdateEvent{ObjectOld: last, ObjectNew: w}, q)
				last = w
			}
			if got, known := d.inForeground(current); got != tc.want || !known {
				t.Errorf("got %v, known %v", got, known)
			}
			if h.Delete(t.Context(), event.DeleteEvent{Object: last}, q); len(d.of) > 0 {
				t.Errorf("%v is remembered after the end of the object", d.of)
			}
		})
	}
}
