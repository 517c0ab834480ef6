// Package history records what writers requested and what the outcome was, and judges it:
// did the lock, the guard and the code under test keep their promises?
//
//	Recorder ──▶ History ──▶ Check ──▶ Violation: the rule, and the shortest
//	(processes)  (ops)                 history that breaks it, as a time line
//
// # What it promises
//
// No correct history is accused. If a fact is unknown (a lost answer, an imprecise time,
// a number that was not seen), the history gets the benefit of the doubt. The comment on
// each rule's function explains why that rule is sound.
//
// Few violations are missed: [Check] and [SecondOpinion], which is another method, agree
// on thousands of random histories, correct and spoiled. Check takes O(n log n): less
// than a second for a million ops on four resources, on two cores.
//
// # What it does not promise
//
// It judges only what is in the history. Every unit, claim and write must be in it,
// including those whose answer was lost: begin them with [Recorder.Begin], which keeps
// them when their writer is killed. Refused means that the mark refused the token. A
// request that fails because a lease has ended, or because a newer request was in the
// way, is Failed if nothing was applied, and Unknown otherwise.
//
// Check judges accepted units by the count alone, and not by their numbers. Their writes
// carry the numbers: if a unit was late, its writes show it.
//
// The two methods differ on purpose. SecondOpinion leaves out the rules of the lock
// (numbers, owner, mutual-exclusion, number-reuse) and of time (liveness,
// bounded-blocking), and two kinds of evidence for trace that concern a single write:
// that it was looked for and found although refused, and that its version was read.
//
// # The rules
//
// [Rules] lists them with the sentences that verdicts print. At the resource: order,
// holder, once, spurious-refusal, mark, trace, versions. At the lock: numbers, owner,
// mutual-exclusion, number-reuse. About progress: liveness, if TTL is set and there were
// faults, and bounded-blocking, if Bound is set.
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
//	write.End(history.OutcomeOf(err), nil)
//	unit.End(history.OutcomeOf(err), nil)
//	…
//	read := r.Begin(history.Op{Kind: history.Read, Writer: "judge", Resource: "account/42"})
//	units := count() - countedAtTheStart
//	read.End(history.Accepted, func(op *history.Op) { op.Counted = units })
//	broken, err := history.Check(r.History())
//
// # Where next
//
// Package simulations drives a user's own code through pauses, records its ops and judges
// them with this package. docs/testing.md shows how to read a verdict.
package history
