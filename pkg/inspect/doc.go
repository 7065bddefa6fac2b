// Package inspect reads an object, its children and their pods, and prints what
// a user needs to know about them: whether the object is healthy, and if not,
// why, and what to do. It only reads, with the permissions of the user, so that
// everything except the object itself may be unreadable.
package inspect
