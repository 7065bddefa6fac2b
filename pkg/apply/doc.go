// Package apply creates, updates and deletes children so that they match their
// intents, with as few requests as possible, and never modifies objects that
// the operator does not own. It is the only caller of client.Apply.
//
//	not in the cache       apply with resource version "1", which creates the
//	                       child or is answered with 409 if it exists
//	  409                  one uncached read: owned → apply; handed over → adopt;
//	                       otherwise report a conflict and write nothing
//	in the cache, owned    no request if the child has the hash of the intent and
//	                       all stated fields; else one apply, fenced by the UID
//	being deleted          wait
//	in the cache, unowned  report a conflict and write nothing
//
// The hash shows that a field was removed from the intent, and the comparison
// shows drift. Neither has to be kept in memory, so a restart costs no request.
//
//	intent.go    what is applied
//	apply.go     Apply, Delete and Release; who owns a child
//	evaluate.go  how a live child differs from its intent; writes nothing
//	execute.go   the requests
//	repair.go    how often a child is repaired that keeps changing
//	memory.go    what is remembered about children
package apply
