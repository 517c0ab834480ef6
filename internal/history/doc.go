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
// Few violations are missed: in the tests, [Check] and a second judge, which is another
// method, agree on thousands of random histories, correct and spoiled. Check takes
// O(n log n): less than a second for a million ops on four resources, on two cores.
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
//
// # The files, in reading order
//
//	op.go              the kinds, outcomes and fields of an operation; which ops are malformed;
//	                   what an error of a guard or an issuer means as an outcome
//	recorder.go        recording an op from its request to its answer; ops that are never
//	                   answered; lines of JSON from another process, and the merge of its clock
//	check.go           the list of all rules, with their sentences; each rule is applied to each
//	                   resource; how rules are left out; which limits are refused
//	verdict.go         a broken rule as text: why, what was expected, and the time line, which
//	                   leaves out ops of a long history
//	rules_mark.go      order: a stale write was accepted; holder: a number from two holders;
//	                   mark: it fell; spurious-refusal: what can have raised the mark
//	rules_lock.go      numbers, number-reuse, owner, mutual-exclusion; for how long a lease was
//	                   certainly held
//	rules_count.go     once: a unit was lost, or counted twice; trace: a refused or failed op
//	                   was applied; which units explain which steps of the count
//	rules_versions.go  versions: made twice, out of order, or missing; which missing ones a
//	                   write without an answer explains
//	rules_progress.go  liveness: no write soon after the last fault; bounded-blocking: a paused
//	                   holder blocked another writer for too long
//	story.go           the ops of one resource, sorted and filed by kind; what had ended before
//	                   an op began
package history
