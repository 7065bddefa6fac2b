// Package apply makes children as they are meant to be, with as few requests
// as that takes, and touches nothing that is not ours. It is the only caller
// of client.Apply.
//
//	absent in the cache   apply so that it only creates: "resourceVersion 1"
//	                      makes the server answer 409 where something stands
//	  409                 one live read: ours → apply; handed over → take over;
//	                      else a conflict, and nothing is written
//	present, ours         hash of the intent on it equal, and everything stated
//	                      is there → no request; else one apply, fenced by UID
//	present, going away   wait
//	present, foreign      conflict, nothing is written
//
// The hash tells that a field was dropped from the intent; the comparison
// tells drift. Neither is needed in memory, so a restart costs no request.
package apply
