// Package v1beta1 is an earlier name of what package v1 is: the same spec and
// the same status, so nothing needs converting.
//
// +kubebuilder:object:generate=true
// +groupName=paas.cmft.com
package v1beta1
