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
