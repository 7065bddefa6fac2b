// Package version says which build this is.
package version

import "runtime/debug"

// Version is set by the linker, from git describe.
var Version = "dev"

// Describe returns the version, the revision it was built from where that is
// known, and the Go version.
func Describe() string {
	s := "platform-operator " + Version
	if b, ok := debug.ReadBuildInfo(); ok {
		s += " (" + b.GoVersion + ")"
	}
	return s
}
