// Package adopt shows how a program that already has a lock gets its writes fenced, with
// one function for each common lock. docs/adopt.md quotes the functions, and the tests
// run them on real servers.
package adopt
