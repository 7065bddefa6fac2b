package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// keepFinalizer keeps the finalizer where, and only where, the deletion policy
// needs it: in the user's own request, so that there is no moment at which a
// deletion would do what the policy forbids.
//
// It is asked before the schema is. So it reads these two fields and nothing
// else: what our types cannot hold, such as a word for a number, the schema
// refuses right after in better words; a quantity with a huge exponent would
// take hours to read; and a patch made of our types would say in other words
// what the user sent, 1Gi for 1024Mi, which is a change for ever to who keeps
// the object in git.
func keepFinalizer(_ context.Context, req admission.Request) admission.Response {
	var o struct {
		Metadata struct {
			Finalizers []string `json:"finalizers"`
		} `json:"metadata"`
		Spec struct {
			DeletionPolicy common.DeletionPolicy `json:"deletionPolicy"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(req.Object.Raw, &o); err != nil {
		return admission.Allowed("")
	}
	const path = "/metadata/finalizers"
	finalizers := o.Metadata.Finalizers
	at, needed := slices.Index(finalizers, naming.Finalizer), o.Spec.DeletionPolicy == common.DeletionPolicyOrphan
	switch {
	case needed && len(finalizers) == 0:
		return admission.Patched("", jsonpatch.NewOperation("add", path, []string{naming.Finalizer}))
	case needed && at < 0:
		return admission.Patched("", jsonpatch.NewOperation("add", path+"/-", naming.Finalizer))
	case !needed && at >= 0:
		return admission.Patched("", jsonpatch.NewOperation("remove", fmt.Sprintf("%s/%d", path, at), nil))
	}
	return admission.Allowed("")
}
