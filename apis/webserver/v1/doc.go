// Package v1 contains the API of WebServer, group my.domain: a fleet of nginx
// pods.
//
// A WebServer that sets only an image and a number of replicas results in a
// Deployment and a Service.
//
// +kubebuilder:object:generate=true
// +groupName=my.domain
package v1
