// Package v1 contains the API of DemoApplication, group paas.cmft.com: a web
// application.
//
// A DemoApplication that sets an image, a number of replicas and a list of
// ports results in a Deployment and a Service. v1 is the storage version.
//
// +kubebuilder:object:generate=true
// +groupName=paas.cmft.com
package v1
