package webhooks

import (
	"context"
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/json"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// addFinalizer adds the finalizer if the deletion policy requires it. It does so in
// the user's own request, so that a deletion can never violate the policy. The
// operator removes it, after it has changed the owners of the children. The API
// server calls the webhook only for objects that it changes: a match condition in
// the markers states the same rule.
//
// It runs before the schema is validated, and reads only these two fields.
// Decoding the whole object into the Go types has three disadvantages: values of
// the wrong type fail here with a worse message than that of the schema; a
// quantity with a huge exponent takes hours to parse; and a patch generated from
// the Go types normalizes the user's values, such as 1024Mi to 1Gi, which GitOps
// tools report as permanent drift.
func addFinalizer(_ context.Context, req admission.Request) admission.Response {
	var o struct {
		Metadata struct {
			Finalizers []string `json:"finalizers"`
		} `json:"metadata"`
		Spec struct {
			DeletionPolicy common.DeletionPolicy `json:"deletionPolicy"`
		} `json:"spec"`
	}
	// The package of the API server: encoding/json would take deletionpolicy for deletionPolicy.
	if err := json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &o); err != nil {
		return admission.Allowed("")
	}
	const path = "/metadata/finalizers"
	finalizers := o.Metadata.Finalizers
	switch {
	case o.Spec.DeletionPolicy != common.DeletionPolicyOrphan || slices.Contains(finalizers, naming.Finalizer):
	case len(finalizers) == 0:
		return admission.Patched("", jsonpatch.NewOperation("add", path, []string{naming.Finalizer}))
	default:
		return admission.Patched("", jsonpatch.NewOperation("add", path+"/-", naming.Finalizer))
	}
	return admission.Allowed("")
}
