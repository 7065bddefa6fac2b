// Package common holds what several kinds of this operator say in the same
// words: condition types, reasons, the deletion policy, the shape of an
// address. It belongs to no API group; a kind embeds what it needs.
//
// +kubebuilder:object:generate=true
package common
