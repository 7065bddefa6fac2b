// Package v1alpha1 contains the API of Redirect, group redirect.example.com. It
// is not a part of the operator: it shows what another kind costs, and the tests
// that all kinds share run on it.
//
// +kubebuilder:object:generate=true
// +groupName=redirect.example.com
package v1alpha1
