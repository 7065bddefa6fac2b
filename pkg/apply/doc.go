// Package apply creates, updates and deletes children so that they match their
// intents, with as few requests as possible, and never modifies objects that
// the operator does not own. It is the only caller of client.Apply.
// docs/architecture.md lists in which state of a child which request is sent.
//
// The hash shows that a field was removed from the intent, and the comparison
// shows drift. Neither has to be kept in memory, so a restart costs no request.
//
//	intent.go    what is applied
//	apply.go     Apply and Delete
//	evaluate.go  how a live child differs from its intent, and Diff; writes nothing
//	execute.go   the requests of Apply
//	owned.go     who owns a child
//	orphan.go    the patches that change only the owner, and Release
//	repair.go    how often a child is repaired that keeps changing
//	memory.go    what is remembered about children
package apply
