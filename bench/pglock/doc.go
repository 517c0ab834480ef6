// Package pglock has the figures of locks in PostgreSQL.
//
//	two updates    of one row each, whose commits wait for the disk: what a lock
//	               that is a row could cost at least, if its release waited too
//	a row          pgtoken.Issuer: a row for each resource
//	advisory       pgtoken.Advisory: the lock is a session's, the number a row's
//
// Each worker has a resource, and a row, of its own. Then eight want one lock, as
// those of package handover do; a hand-over is compared with one such update, for
// which the server also waits for its disk.
//
// Round trips are counted where they leave: it is how often a client writes to a
// connection.
package pglock
