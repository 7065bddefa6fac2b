// Package v1alpha1 is the API of Memcached, group cache.example.com: a cache
// of several nodes.
//
// A Memcached of one line, its size, becomes a Deployment and a headless
// Service; its status lists the nodes that serve.
//
// +kubebuilder:object:generate=true
// +groupName=cache.example.com
package v1alpha1
