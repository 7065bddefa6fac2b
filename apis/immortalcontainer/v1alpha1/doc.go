// Package v1alpha1 contains the API of ImmortalContainer, group
// immortalcontainer.flugel.it: a single container that is always restarted.
//
// Whenever its pod is deleted, fails, is evicted or completes, a new pod of the
// same name replaces it, and the status counts the replacements.
//
// +kubebuilder:object:generate=true
// +groupName=immortalcontainer.flugel.it
package v1alpha1
