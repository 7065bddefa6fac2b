// Package v1alpha1 contains the API of Memcached, group cache.example.com: a
// cache with several nodes.
//
// A Memcached that sets only its size results in a Deployment and a headless
// Service; its status lists the nodes that are serving.
//
// +kubebuilder:object:generate=true
// +groupName=cache.example.com
package v1alpha1
