// Package peer lets the locks of others be measured as ours are: each has one
// function that waits for a resource, and one that tries.
//
// They have the settings that their own documentation begins with, but for the
// ttl, which is the same for all, and for bounds on the number of tries, which
// would end a wait.
package peer
