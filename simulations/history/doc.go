// Package history writes down what writers asked for and what became of it, and
// judges it: did the lock, the guard and the code under test keep their promises?
//
//	Recorder ──▶ History ──▶ Check ──▶ Violation: the rule, and the shortest
//	(processes)  (ops)                 history that breaks it, as a time line
//
// # What it promises
//
// No correct history is accused. What is not known (an answer that was lost, a
// time that is only known roughly, a number nobody saw) counts for the accused;
// the comment on each rule's function says why that rule is sound.
//
// Of what it knows, it misses little: thousands of random histories, correct and
// spoiled, are judged alike by [Check] and by [SecondOpinion], which is another
// method. Check takes O(n log n): a million ops on four resources in less than a
// second, on two cores.
//
// # What it does not
//
// It does not know what is not in the history. Every unit, claim and write must
// be there, also those whose answer was lost: begin them with [Recorder.Begin],
// which remembers them when their writer is killed. Refused means refused by the
// mark, for the token: what fails because a lease has ended, or because a newer
// request was in the way, is Failed, if nothing was applied, else Unknown.
//
// Accepted units are judged by the count alone, not by their numbers: that one
// came too late is told by its writes.
//
// The two judges differ, by intention, here: SecondOpinion does not know locks
// (numbers, owner, alone, burnt) or time (alive, bound); nor the two kinds of
// evidence for trace that a write alone can give, that it was looked for and
// found although refused, and that its version was read.
//
// # The rules
//
// [Rules] lists them with the sentences that verdicts show. At the resource:
// order, holder, once, reason, mark, trace, versions. At the lock: numbers,
// owner, alone, burnt. Of going on: alive, where TTL is given and there were
// faults, and bound, where Bound is given.
//
// # In code
//
//	r := history.NewRecorder()
//	…
//	op := history.Op{Kind: history.Unit, Writer: "A", Resource: "account/42", Number: tok.Number, Holder: tok.Holder}
//	unit := r.Begin(op)
//	op.Kind = history.Write // the transaction in it: order goes by writes
//	write := r.Begin(op)
//	err := fence.Update(ctx, "account/42", pay)
//	write.End(simulations.Outcome(err), nil)
//	unit.End(simulations.Outcome(err), nil)
//	…
//	read := r.Begin(history.Op{Kind: history.Read, Writer: "judge", Resource: "account/42"})
//	units := count() - countedAtTheStart
//	read.End(history.Accepted, func(op *history.Op) { op.Counted = units })
//	broken, err := history.Check(r.History())
//
// # Where next
//
// Package simulations drives a user's own code through pauses, records it and
// judges it by this package. docs/testing.md shows how to read a verdict.
package history
