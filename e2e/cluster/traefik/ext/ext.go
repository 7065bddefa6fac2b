// Package ext is where vendors of Traefik add to its configuration. There is
// nothing to add; Traefik embeds the two types all the same.
package ext

// HTTP is embedded in the configuration of HTTP.
type HTTP struct{}

// DeepCopyInto is called by generated code.
func (*HTTP) DeepCopyInto(*HTTP) {}

// Router is embedded in the configuration of every router.
type Router struct{}

// DeepCopyInto is called by generated code.
func (*Router) DeepCopyInto(*Router) {}
