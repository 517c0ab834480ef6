// Package guard decides whether a write may still be made.
//
// # What it is
//
// A guard keeps a [Mark] for each resource: the number and the holder of the highest
// token it has admitted. To admit a token, it compares the token with the mark and raises
// the mark to the token, in one atomic step:
//
//	number > mark.Number                              admitted, the mark is raised
//	number = mark.Number and holder = mark.Holder     admitted: the holder's next write
//	number = mark.Number and another holder           refused: [ErrCollision]
//	number < mark.Number                              refused: [ErrStale]
//
// This package contains the rule, the errors, the [Hooks], the [Store] interface, and
// [Memory], a Store. Guards of a resource are in packages of their own: sqlguard admits a
// token inside the transaction that writes, and httpguard before it calls a handler.
//
// # What it promises
//
// Marks are never lowered. A refusal is a [*StaleError], which promises that nothing
// was applied. A guard reads no clock and calls no lock service.
//
// # What it does not do
//
// A mark protects a resource only if both change together, or if nothing can happen
// between the admission and the write. Admitting a token and then writing elsewhere is
// check-then-act: during a pause between the two, a newer holder can write. If a guard
// loses a mark while the resource still exists, it admits stale tokens again.
//
// # Use
//
//	var marks guard.Memory
//	if err := marks.Admit(ctx, tok); errors.Is(err, guard.ErrStale) {
//		return err // a newer holder has been here
//	}
//
// # Where next
//
// For a database, see package sqlguard. For a handler, see package httpguard. To write a
// store, read [Store] and package [github.com/fencepost/fencepost/guard/guardtest].
package guard

// The files of this package, in reading order:
//
//	mark.go     which tokens a mark admits: the order of numbers, then the holder; what a Store
//	            must do; when two stores share a table of requests in flight (Identified)
//	outcome.go  the outcomes of a write: stale, retryable, unknown, evicted, unfenced; which
//	            errors are refusals; what is joined to them after a lost lease or a newer token
//	unit.go     a unit of Once: its key, fingerprint, result and retention; a reused key
//	hooks.go    what hooks are called with; report-only mode: a refusal is reported and nil is
//	            returned; what is logged if there is no hook
//	memory.go   a Store in this process's memory; an Admit under an ended context, or after a
//	            lost lease
