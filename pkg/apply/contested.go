package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/platform-operator/platform-operator/pkg/hash"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// A mutating webhook may change a child in the operator's own request. Another
// request would result in the same, so the operator leaves such a child as it is
// until it differs in another way. How it differs is known from the answer of
// the write. It is noted on the child, because otherwise each restart of the
// operator would write all these children again.

// contestedManager owns the note. It is written separately, because only the
// answer of an apply shows that it is necessary.
const contestedManager = naming.FieldManager + "-contested"

// deviation identifies how a live child differs from the intent. It is "" if the
// child does not differ.
func (t *attempt) deviation(live client.Object) string {
	var found []string
	w := t.compare.walk(t.in.Exclusive)
	w.report = func(path, verb string, live reflect.Value) {
		found = append(found, fmt.Sprintf("%s would %s: %s", path, verb, encode(live)))
	}
	w.reportExtra = func(path string, live reflect.Value) {
		found = append(found, fmt.Sprintf("%s has more: %s", path, encode(live)))
	}
	w.root(live, t.fields)
	if len(found) == 0 {
		return ""
	}
	slices.Sort(found)
	return hash.Bytes(t.hash, []byte(strings.Join(found, "\n")))
}

func encode(v reflect.Value) []byte {
	if !v.IsValid() {
		return nil
	}
	raw, err := json.Marshal(v.Interface())
	if err != nil {
		return []byte(err.Error()) // the values of API types can be encoded
	}
	return raw
}

// isContested reports whether a child differs from the intent exactly as it did
// in the answer of the last write of this intent.
func (t *attempt) isContested(live client.Object) bool {
	noted := live.GetAnnotations()[naming.AnnotationContested]
	last, _ := t.recall()
	if noted == "" && last.contested == "" {
		return false
	}
	d := t.deviation(live)
	return d != "" && (d == noted || d == last.contested)
}

// note writes on the child how it differs from the intent, or removes an earlier
// note. It returns the child as it is then, and how that differs. It costs one
// request if the note changes. If that fails, the child is written again after a
// restart.
func (t *attempt) note(ctx context.Context, live client.Object, deviation string) (client.Object, string) {
	if live.GetAnnotations()[naming.AnnotationContested] == deviation {
		return live, deviation
	}
	answer := t.in.newLive()
	answer.SetNamespace(t.in.Namespace)
	answer.SetName(t.in.Name)
	err := t.owner.stillFresh()
	if err == nil {
		err = t.client.Patch(ctx, answer, notePatch(live.GetUID(), deviation), client.FieldOwner(contestedManager))
	}
	if err != nil {
		log.FromContext(ctx).Info("Noting that something else changes a child failed", "child", t.in.String(), "error", err.Error())
		return live, deviation
	}
	return answer, t.deviation(answer)
}

// notePatch returns the patch that writes a note, or removes it if it is empty.
func notePatch(uid types.UID, note string) client.Patch {
	value := "null"
	if note != "" {
		value = strconv.Quote(note)
	}
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%s}}}`, uid, naming.AnnotationContested, value))
}
