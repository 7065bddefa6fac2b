// Package policy contains the admission policies that confine the operator's account.
package policy

import (
	_ "embed"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"
)

//go:embed policies.yaml
var file string

// Account returns the policy for what the operator's account writes, and its binding.
func Account() (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding, error) {
	docs := strings.Split(file, "\n---\n")
	policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	for i, o := range []any{policy, binding} {
		if err := yaml.UnmarshalStrict([]byte(docs[i]), o); err != nil {
			return nil, nil, fmt.Errorf("reading document %d of policies.yaml: %w", i, err)
		}
	}
	return policy, binding, nil
}
