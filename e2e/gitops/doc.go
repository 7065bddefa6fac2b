// Package gitops tests that tools which deploy from Git judge the objects as their users
// would: Argo CD by the script in config/gitops, Flux by kstatus. It is a module of its own,
// because only these tests need a Lua interpreter and kstatus.
package gitops
