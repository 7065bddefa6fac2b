// Package preflight says what this version of the operator would do to the
// objects of a cluster, before it is let loose on them. Nothing is written.
//
//	list     all objects and all children with our label: one LIST a type
//	look     Observe and Desired as the operator runs them, apply.Explain in the
//	         place of Apply
//	report   children that would be written and why, pods that would restart,
//	         and what would come with the user's next change
//
// It reads lists, not watches: whoever may list may run it, what may not be
// read is told at once, and managed fields are whole, which the operator's own
// caches do not keep. Selection and indexes are those of the caches.
package preflight
