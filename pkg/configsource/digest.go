package configsource

import (
	"errors"

	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/hash"
)

// CombinedDigest returns one digest of all Secrets that pods use, which is one of the
// inputs of the pod template (see rollout.WithSecrets). digests are those of the
// existing Secrets, by name, or nil if the operator does not read Secrets. A
// missing optional Secret does not affect the digest until it is created. The
// error lists all other missing Secrets, because pods that would wait for one
// are not created, and are therefore not replaced once it exists. It also lists
// each Secret that could not be read, optional or not.
func CombinedDigest(uses []Use, digests map[string]SecretDigest) (string, error) {
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
			errs = append(errs, fault.Stalled(msgNoReference, "Secret", u.Name, u.Field))
		}
	}
	if len(there) == 0 || len(errs) > 0 {
		return "", errors.Join(errs...)
	}
	return hash.Of("", there)
}
