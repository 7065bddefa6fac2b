// Package v1 is the API of WebServer, group my.domain: an nginx fleet.
//
// A WebServer of two lines, an image and a number of replicas, becomes a
// Deployment and a Service; its status says what serves and where.
//
// +kubebuilder:object:generate=true
// +groupName=my.domain
package v1
