// Package v1alpha1 is the API of ImmortalContainer, group
// immortalcontainer.flugel.it: one container that never stays dead.
//
// However its pod ends, deleted, failed, evicted or finished, a new one of the
// same name takes its place, and the status counts how often that was.
//
// +kubebuilder:object:generate=true
// +groupName=immortalcontainer.flugel.it
package v1alpha1
