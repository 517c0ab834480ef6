// Package redis has the figures of locks in Redis of which nobody else wants any:
// what it costs to acquire one and to give it back.
//
//	raw    SET key holder NX PX ttl, and a script that deletes the key if it is
//	       the holder's: the least that is a lock. It has no token.
//
// Each worker has a resource of its own. The locks of others are measured beside
// ours, on the same server and, where they take one, with the same client. Of
// three servers a majority grants.
//
// Round trips are counted where they leave: it is how often a client writes to a
// connection.
package redis
