// Package v1beta1 is an earlier version of the API in package v1. The spec and
// the status are the same, so that nothing has to be converted.
//
// +kubebuilder:object:generate=true
// +groupName=paas.cmft.com
package v1beta1
