// Package engine decides whether a database is known to fence.
//
// The guards rely on locks that exclude all other writers, and on reads that see what was
// committed while they waited. Not all engines that speak PostgreSQL's or MySQL's
// protocol provide both, and some clusters provide them on one node only. This package
// has the allowlist: the query for a server's engine, and the rule for the reply. Guards,
// migrations and doctor run the query and apply no rules of their own.
//
// docs/engines.md lists the engines and modes, with the source of each rule.
package engine
