// Package guard decides whether a write may still be made.
//
// # What it is
//
// For each resource a guard remembers its [Mark]: the highest token it has
// admitted, as number and holder. To admit a token is to compare it with the
// mark and to raise the mark to it, in one atomic step:
//
//	number > mark.Number                              admitted, the mark is raised
//	number = mark.Number and holder = mark.Holder     admitted: the holder's next write
//	number = mark.Number and another holder           refused: [ErrCollision]
//	number < mark.Number                              refused: [ErrStale]
//
// This package holds the rule, the errors, the [Store] interface and [Memory].
// Guards that belong to a resource are elsewhere: sqlguard admits inside the
// transaction that writes, httpguard in front of a handler.
//
// # What it promises
//
// Marks are never lowered. A refusal is a [*StaleError] and promises that
// nothing was applied; an error that promises less is never a StaleError.
// Nobody's clock and no lock service is asked.
//
// # What it does not
//
// A mark fences a resource only where mark and resource change together, or
// where nothing can come between the admission and the write. To admit, and
// then to write somewhere else, is check-then-act: a pause between the two
// lets a stale write in. And a mark that can be forgotten while the resource
// is remembered admits the stale again.
//
//	var marks guard.Memory
//	if err := marks.Admit(ctx, tok); errors.Is(err, guard.ErrStale) {
//		return err // a newer holder has been here
//	}
package guard
