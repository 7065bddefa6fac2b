// Package common contains the types that several kinds of this operator share:
// conditions and their reasons, the deletion policy, and parts of specs and
// statuses. It belongs to no API group; kinds embed what they need.
//
// +kubebuilder:object:generate=true
package common
