// Package v1 is the API of DemoApplication, group paas.cmft.com: any web
// application.
//
// A DemoApplication of an image, a number of replicas and a list of ports
// becomes a Deployment and a Service; its status says what serves and where.
// v1 is the version that is stored.
//
// +kubebuilder:object:generate=true
// +groupName=paas.cmft.com
package v1
