// Package adopt shows how a program that already has a lock gets its writes
// fenced: one function for each lock that programs commonly have. They are the
// code of docs/adopt.md, and the tests run them on real servers.
package adopt
