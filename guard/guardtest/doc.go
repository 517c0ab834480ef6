// Package guardtest holds an implementation of [guard.Store] to its contract.
//
// # What it is
//
// One function, [TestStore], that a store's test calls with a way to make the
// store. It needs nothing but the standard library.
//
//	func TestStore(t *testing.T) {
//		guardtest.TestStore(t, func(t *testing.T) guard.Store { return newStore(t) })
//	}
//
// # What it promises
//
// Each subtest is named after the rule that it checks, and says what it did,
// what it got, and what the rule asks for. The suite is itself tested: broken
// stores, each wrong in one way seen in the field, must each be caught by the
// rule they break and by no other.
//
// It runs about twelve hundred admissions, a matter of seconds on a real
// database, under names that no run repeats: a store may be shared and durable.
//
// # What it does not
//
// It cannot see whether a mark survives a crash, nor whether the mark and the
// resource it guards change together: those need a test of the backend's own.
package guardtest
