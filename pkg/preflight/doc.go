// Package preflight reports what this version of the operator would do to the
// objects of a cluster, before it is deployed. Nothing is written.
//
//	list     all objects, and all children with the operator's label: one LIST
//	         per type
//	plan     Observe and Plan as the operator runs them, with apply.Diff
//	         instead of Apply
//	report   children that would be written and why, pods that would restart, addresses that would be lost,
//	         and changes that would take effect with the user's next change
//
// It lists and does not watch: permission to list is sufficient to run it,
// missing permissions are reported immediately, and managed fields are
// complete, unlike those in the operator's own caches. Selectors and indexes
// are those of the caches.
package preflight
