package rollout

import (
	"errors"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/references"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// Secrets is one digest of all Secrets that are used: an input of the pods, and
// see WithSecrets. digests are those of the Secrets that there are, by name, and
// nil where nobody looks. An optional one that is not there changes nothing
// before it comes. The error tells of all others that are missing: pods that
// would wait for one are not made, and so not replaced when it comes. It also
// tells of each that could not be read, optional or not.
func Secrets(uses []resources.Use, digests map[string]references.SecretDigest) (string, error) {
	if digests == nil {
		return "", nil
	}
	there := map[string]string{}
	told := map[string]bool{}
	var errs []error
	for _, u := range uses {
		d, found := digests[u.Name]
		switch {
		case d.Err != nil && !told[u.Name]:
			told[u.Name] = true
			errs = append(errs, d.Err)
		case found:
			there[u.Name] = d.Digest
		case !u.Optional && !told[u.Name]:
			told[u.Name] = true
			errs = append(errs, fault.Stalled(common.ReasonReferenceNotFound, "%s: there is no Secret %q in this namespace; create it, or name another", u.Field, u.Name))
		}
	}
	if len(there) == 0 || len(errs) > 0 {
		return "", errors.Join(errs...)
	}
	return hashOf("", there)
}
