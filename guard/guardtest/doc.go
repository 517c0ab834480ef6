// Package guardtest tests an implementation of [guard.Store] against its contract.
//
// # What it is
//
// [TestStore] is the only function. A store's test calls it with a function that creates
// the store. The package imports only the standard library and this module.
//
// # What it promises
//
// Each subtest is named after the rule that it checks. A failure prints the calls made,
// the result, and the result that the rule requires. The suite is tested with mutants:
// broken stores, each with one mistake seen in practice. Each mutant must fail exactly
// the rules that it breaks.
//
// The suite makes about twelve hundred admissions, which takes seconds on a real
// database. Resource names differ from run to run, so a store may be shared and durable.
//
// # What it does not do
//
// It does not test whether a mark survives a crash, or whether the mark and the resource
// change together. Each backend needs its own tests of these.
//
// # Use
//
//	func TestStore(t *testing.T) {
//		guardtest.TestStore(t, func(t *testing.T) guard.Store { return newStore(t) })
//	}
package guardtest

// The files of this package, in reading order:
//
//	suite.go    the list of rules, a subtest for each; ErrRetryable is repeated; the time limit
//	            of a rule
//	order.go    greater, lesser and equal numbers; numbers compared as text, as 32 bits or as
//	            floating point; marks of different resources, and marks that a store forgets
//	refusal.go  a refusal's type, token and mark; incomplete tokens; an Admit under an ended
//	            context; a refusal that changes the mark
//	names.go    names that a collation takes for equal (case, spaces, Unicode forms); names with
//	            quotes, SQL or wildcards; names of 200 bytes that are cut
//	race.go     concurrent writers: two holders admitted under one number, a lesser number
//	            admitted late, the greatest number refused
