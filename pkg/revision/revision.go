// Package revision reads and compares the pod templates that are stored in
// ControllerRevisions. The operator and the command line use it. It is pure.
package revision

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Contents is the data of a ControllerRevision. T is the type of pod templates.
type Contents[T any] struct {
	Template *T    `json:"template"`
	Revision int64 `json:"revision,omitempty"`
}

// Template returns the pod template that is stored in a ControllerRevision.
func Template[T any](live *appsv1.ControllerRevision) (*T, error) {
	var c Contents[T]
	if err := json.Unmarshal(live.Data.Raw, &c); err != nil || c.Template == nil {
		return nil, fmt.Errorf("ControllerRevision %q contains no pod template", live.Name)
	}
	return c.Template, nil
}

// Identity returns the number of a revision and the hash of its template. They are read from
// the data of the ControllerRevision, which is immutable, unlike its revision field and its
// annotations.
func Identity(live *appsv1.ControllerRevision) (number int64, hash string) {
	var c Contents[metav1.PartialObjectMetadata]
	if err := json.Unmarshal(live.Data.Raw, &c); err != nil || c.Template == nil {
		return cmp.Or(c.Revision, live.Revision), "" // Template returns the error
	}
	return cmp.Or(c.Revision, live.Revision), c.Template.Annotations[naming.AnnotationTemplate]
}

// Sort sorts revisions, the oldest first.
func Sort(all []*appsv1.ControllerRevision) {
	slices.SortFunc(all, func(a, b *appsv1.ControllerRevision) int {
		n, _ := Identity(a)
		m, _ := Identity(b)
		return cmp.Or(cmp.Compare(n, m), cmp.Compare(a.Name, b.Name))
	})
}
