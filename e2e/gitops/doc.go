// Package gitops tests that tools which deploy from Git judge the objects as their users
// would, Argo CD by the script in config/gitops and Flux by kstatus, and that kustomize
// changes the references in them. It is a module of its own, because only these tests need
// a Lua interpreter, kstatus and kustomize.
package gitops
