package simulations

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/token"
)

// evidence is what likely decides by.
type evidence struct {
	*explorer
	*Verdict // nil if the error is not a verdict
	err      error
	writers  []*writer // those of the interleaving that failed
}

// Breaks is that of the verdict. Without a verdict no rule was broken.
func (e *evidence) Breaks(id string) bool { return e.Verdict != nil && e.Verdict.Breaks(id) }

// explain adds the likely causes to err.
func (x *explorer) explain(st *stage, err error) error {
	if err == nil {
		x.refused = x.refused || slices.ContainsFunc(st.writers, (*writer).refusedItself)
		return nil
	}
	if x.twin || st.broken != nil {
		return err
	}
	e := &evidence{explorer: x, err: err, writers: st.writers}
	errors.As(err, &e.Verdict)
	if e.Breaks("once") {
		e.awaitStrays()
	}
	likely := e.likely()
	if e.Verdict != nil {
		e.Verdict.LikelyCauses = likely
		return err
	}
	if len(likely) == 0 {
		return err
	}
	return &likelyError{err, likely}
}

// likelyError is an error that is not a verdict, with its likely causes.
type likelyError struct {
	error
	likely []string
}

func (e *likelyError) Error() string { return e.error.Error() + likelyLines(e.likely) }
func (e *likelyError) Unwrap() error { return e.error }

func likelyLines(likely []string) string {
	var text strings.Builder
	for _, line := range likely {
		text.WriteString("\nLikely: " + line)
	}
	return text.String()
}

// defaultStrays is the wait for a Subject that leaves no goroutines running.
const defaultStrays = 200 * time.Millisecond

// awaitStrays waits briefly for goroutines that a unit has left running, to observe their
// late writes.
func (e *evidence) awaitStrays() {
	if e.missing() {
		return // that is the likely cause
	}
	for deadline := time.Now().Add(e.subject.strays); !slices.ContainsFunc(e.writers, (*writer).outlived) && time.Now().Before(deadline); {
		time.Sleep(2 * time.Millisecond)
	}
}

// likely returns the lines of the first kind of evidence that is found.
func (e *evidence) likely() []string {
	for _, find := range []func() []string{
		e.endless, e.otherUnit, e.strays, e.names, e.tokens, e.tries, e.outcomes, e.unfenced, e.unseenWrites, e.reads, e.foreign,
	} {
		if lines := find(); len(lines) > 0 {
			return lines
		}
	}
	return nil
}

func (e *evidence) strays() []string {
	if slices.ContainsFunc(e.writers, (*writer).outlived) || e.missing() {
		return []string{outlives}
	}
	return nil
}

// outlived reports whether the writer was observed to write after its unit or its Hold had
// ended.
func (w *writer) outlived() bool {
	f := w.facts.now()
	return f.some(func(t *transaction) bool { return t.late && !t.claim }) ||
		slices.ContainsFunc(f.refused, func(err error) bool { return errors.Is(err, token.ErrReleased) })
}

// names checks the resources that the guards were called with.
func (e *evidence) names() []string {
	resource := e.subject.Resource
	var missing *token.MissingError
	for _, w := range e.writers {
		if name := w.facts.now().misnamed(resource); name != "" && e.subject.kept() {
			return []string{fmt.Sprintf(misminted, name, resource)}
		}
		for _, err := range slices.Concat(w.facts.now().refused, []error{e.err}) {
			switch {
			case !errors.As(err, &missing):
			case missing.Resource != resource && len(missing.Have) > 0:
				return []string{fmt.Sprintf(wrongName, fmt.Sprintf("%q", missing.Resource), resource)}
			default:
				return []string{fmt.Sprintf(outerContext, missing.Resource)}
			}
		}
	}
	var others []string
	right := false
	for _, w := range slices.Concat(e.shape, e.writers) {
		asked := w.notes.Names()
		switch {
		case slices.Contains(asked, resource):
			right = true
		case len(asked) > 0:
			others = append(others, fmt.Sprintf("%q", asked))
		}
	}
	others = slices.Compact(slices.Sorted(slices.Values(others)))
	switch {
	case len(others) == 0:
		return nil
	case right:
		return []string{fmt.Sprintf(twoNames, resource, strings.Join(others, ", "))}
	}
	return []string{fmt.Sprintf(wrongName, strings.Join(others, ", "), resource)}
}

// tokens looks for a token of another writer.
func (e *evidence) tokens() []string {
	if n := e.shared(); n != 0 {
		return []string{fmt.Sprintf(mintedOnce, n)}
	}
	for _, w := range e.writers {
		tok, f := w.tok.Load(), w.facts.now()
		if tok == nil {
			continue
		}
		var stale *guard.StaleError
		for _, err := range f.refused {
			if errors.As(err, &stale) && stale.Token.Resource == tok.Resource && !slices.Contains(f.own, stale.Token.Number) {
				return []string{fmt.Sprintf(cached, stale.Token.Number)}
			}
		}
		for _, n := range f.numbers {
			if n != 0 && !slices.Contains(f.own, n) {
				return []string{fmt.Sprintf(cached, n)}
			}
		}
	}
	return nil
}

// outcomes checks how Do handled errors.
func (e *evidence) outcomes() []string {
	for _, w := range e.writers {
		f := w.facts.now()
		lost := f.some(func(t *transaction) bool { return t.guard && !t.claim && t.end == failpoint.Unknown })
		ended := func(end failpoint.Step) bool {
			return f.some(func(t *transaction) bool { return t.guard && t.admits && !t.claim && t.end == end })
		}
		switch {
		case f.observed:
			return []string{observes}
		case f.refusedLast && w.outcome == history.Accepted:
			return []string{fmt.Sprintf(swallowed, f.refused[0])}
		case f.dropped && e.Breaks("once"):
			return []string{assumed}
		case w.outcome == history.Accepted && ended(failpoint.Undone) && !f.some((*transaction).wrote) && e.Breaks("once"):
			return []string{undone}
		case e.Verdict != nil && w.outcome == history.Refused && lost:
			return []string{retried} // the second write was refused, and the first had been applied
		case w.outcome == history.Failed && ended(failpoint.Applied) && f.some(func(t *transaction) bool { return t.retries && !t.claim }):
			return []string{retried} // the second write failed
		case (w.outcome == history.Refused || w.outcome == history.Failed) && ended(failpoint.Applied):
			return []string{partial}
		}
	}
	// A refused unit of another writer can make the second write a trace of it.
	if e.some(func(t *transaction) bool { return t.retries && t.wrote() }) && (e.Breaks("once") || e.Breaks("trace")) {
		return []string{retried}
	}
	if e.some(func(t *transaction) bool { return t.undoes }) {
		return []string{savepoint}
	}
	return nil
}

// some reports whether a writer of the interleaving has a transaction that matches.
func (e *evidence) some(is func(*transaction) bool) bool {
	return slices.ContainsFunc(e.writers, func(w *writer) bool { return w.facts.now().some(is) })
}

// unfenced looks for writes that tracers observed and no guard admitted.
func (e *evidence) unfenced() []string {
	var found, inside, ahead, behind *transaction
	for _, w := range slices.Concat(e.shape, e.writers) {
		for _, t := range w.facts.now().all {
			switch {
			case t.outside == beforeHold && !t.fenced():
				ahead = t
			case t.outside == afterHold && !t.fenced():
				behind = t
			case (t.wrote() || e.Verdict == nil && t.blockedBeside()) && !t.fenced() && (found == nil || t.beside):
				found = t
			case t.fenced() && !t.claim && (t.wrote() || t.admits):
				inside = t
			}
		}
	}
	switch {
	case found == nil && behind != nil:
		return []string{fmt.Sprintf(behindHold, behind.statement())}
	case found == nil && ahead != nil && (inside == nil || ahead.sameTable(inside)):
		return []string{fmt.Sprintf(aheadOfHold, ahead.statement())}
	case found == nil:
		return nil
	case found.beside:
		return []string{fmt.Sprintf(overPool, found.statement())}
	case inside != nil && found.sameTable(inside):
		return []string{fmt.Sprintf(onlyFirst, found.statement())}
	case inside != nil && len(found.tables()) > 0 && len(inside.tables()) > 0:
		return []string{fmt.Sprintf(outbox, found.statement()), fmt.Sprintf(onlyFirst, found.statement())}
	case inside != nil:
		return []string{fmt.Sprintf(onlyFirst, found.statement()), fmt.Sprintf(outbox, found.statement())}
	case e.checks():
		return []string{checkFirst}
	}
	return e.foreign()
}

// checks reports whether a guard was called before the write, outside its transaction.
func (e *evidence) checks() bool {
	return slices.ContainsFunc(slices.Concat(e.shape, e.writers), func(w *writer) bool {
		f := w.facts.now()
		return f.admitted || f.some(func(t *transaction) bool { return t.guard && !t.claim })
	})
}

// unseenWrites returns the causes that cannot be distinguished because a write was not
// observed: its connection has no tracer, or its context is not Do's.
func (e *evidence) unseenWrites() []string {
	if !e.Breaks("trace") && !e.Breaks("order") && !e.Breaks("once") {
		return nil
	}
	if lines := e.unheardWrites(); len(lines) > 0 {
		if !e.checks() {
			lines = append(lines, noGuard)
		}
		return lines
	}
	if !e.covered.guarded || e.noClaims() && !e.Breaks("trace") {
		return nil
	}
	stale := e.Breaks("once") && e.lost() && !e.Breaks("trace") && !e.Breaks("order")
	serial, early := e.overlap()
	if stale && serial {
		return e.staleRead()
	}
	lines := []string{otherPool}
	if len(e.covered.drivers) == 0 {
		const unseen = " (not observed: no tracer)"
		lines = []string{fmt.Sprintf(overPool, unseen), fmt.Sprintf(onlyFirst, unseen), fmt.Sprintf(outbox, unseen), checkFirst}
		if stale {
			lines = lines[1:] // no refused unit is counted, so none wrote beside its transaction
		}
	}
	switch {
	case stale && early:
		lines = append([]string{earlyRead}, lines...)
	case stale:
		lines = append(lines, earlyRead)
	case e.Breaks("order") && len(e.covered.drivers) == 0:
		lines = append(lines, savepoint)
	}
	return lines
}

// overlap compares the units in the order of their last claims. They are serial if each had
// ended when the next one claimed, or minted: what that read afterwards contains all that was
// written before, also around the guard. They are early if one had begun, and could read, when
// one before it wrote.
func (e *evidence) overlap() (serial, early bool) {
	claimed := func(k known) time.Duration { return k.last(func(t *transaction) bool { return t.claim }) }
	serial = true
	var ended, wrote time.Duration
	for _, w := range slices.SortedFunc(slices.Values(e.writers), func(a, b *writer) int { return cmp.Compare(claimed(a.facts.now()), claimed(b.facts.now())) }) {
		if unit := w.facts.now(); unit.done {
			serial = serial && claimed(unit) > ended
			early = early || unit.begun < wrote
			ended, wrote = max(ended, unit.ended), max(wrote, unit.last((*transaction).wrote))
		}
	}
	return serial, early
}

// staleRead returns why a unit wrote what it had read before it had its token.
func (e *evidence) staleRead() []string {
	for _, w := range e.writers {
		f := w.facts.now()
		newest := slices.Max(append(f.own, 0))
		var stale *guard.StaleError
		if w.outcome == history.Accepted && errors.As(errors.Join(f.refused...), &stale) && stale.Token.Number < newest {
			return []string{fmt.Sprintf(staleAgain, stale.Token, newest)}
		}
	}
	return []string{earlyRead}
}

// unheardWrites names writes under contexts that are not Do's.
func (e *evidence) unheardWrites() []string {
	if e.covered.unheard == 0 {
		return nil
	}
	return []string{fmt.Sprintf(otherContext, e.covered.unheard, quote(e.covered.unheardSQL))}
}

// noClaims reports whether a guard admitted writes without a claim before them.
func (e *evidence) noClaims() bool {
	return e.covered.guarded && e.subject.Claim == nil &&
		!slices.ContainsFunc(slices.Concat(e.shape, e.writers), func(w *writer) bool {
			f := w.facts.now()
			return len(f.mintedAs) > 0 || f.some(func(t *transaction) bool { return t.claim })
		})
}

func (e *evidence) reads() []string {
	if !e.Breaks("once") || !e.covered.guarded {
		return nil
	}
	if e.noClaims() {
		return []string{noClaim}
	}
	return []string{earlyRead}
}

// foreign checks guards that report no steps, by what they refused.
func (e *evidence) foreign() []string {
	var unseen *unseenError
	switch {
	case e.Verdict == nil && !errors.As(e.err, &unseen):
		return nil
	case e.Verdict == nil && !e.checks():
		return append(e.unheardWrites(), noGuard)
	case e.Verdict == nil:
		return append(e.unheardWrites(), checkFirst)
	case e.Breaks("spurious-refusal"):
		return []string{equality}
	case e.refused || slices.ContainsFunc(e.writers, (*writer).refusedItself):
		return []string{checkFirst}
	case e.noClaims() && e.covered.guarded:
		return []string{noClaim}
	}
	return []string{noGuard}
}

// refusedItself reports whether w's unit was refused by something other than a guard,
// mostly a Locker's claim.
func (w *writer) refusedItself() bool {
	return w.outcome == history.Refused && len(w.facts.now().refused) == 0
}

// likelyVacuous returns why the twin was probably not corrupted.
func (x *explorer) likelyVacuous() []string {
	e := &evidence{explorer: x, Verdict: &Verdict{}, writers: x.shape}
	if lines := e.names(); len(lines) > 0 {
		return lines
	}
	switch {
	case x.subject.Unguarded != nil:
		return []string{"Unguarded is guarded, or cannot be stopped in the middle: add the tracer of your driver (pgxpoint, sqlpoint, redispoint), or call simulations.Failpoint between its read and its write"}
	case !x.covered.guarded && !e.checks():
		return []string{"Do called no guard of Fencepost, so its twin is guarded too: set Subject.Unguarded or, for a service over HTTP, mount httppoint.Handler around it"}
	case len(x.covered.drivers) == 0:
		return []string{"no tracer reported a step, so Do cannot be stopped between its read and its write: add the tracer of your driver (pgxpoint, sqlpoint, redispoint), or call simulations.Failpoint there"}
	}
	return []string{"Do writes the same whatever it read, as when the database increments a counter; or something else refuses stale writes too, such as a table that fencepost.protect has enforcing (in the test's schema, protect it in mode 'report-only')"}
}

func (e *evidence) endless() []string {
	var endless *endlessError
	if errors.As(e.err, &endless) {
		return []string{fmt.Sprintf(insists, endless.last)}
	}
	return nil
}

// missing reports whether a unit was undisturbed, refused by no guard, and acknowledged,
// while a tracer or guard observed the start of work that is not counted.
func (e *evidence) missing() bool {
	if !e.Breaks("once") || e.Interleaving != undisturbedName {
		return false
	}
	return e.lost() && e.covered.guarded && !slices.ContainsFunc(e.writers, func(w *writer) bool { return len(w.facts.now().refused) > 0 })
}

// lost reports whether fewer units were counted than acknowledged.
func (e *evidence) lost() bool {
	acknowledged := 0
	for _, op := range e.history.Ops {
		if op.Kind == history.Unit && op.Outcome == history.Accepted {
			acknowledged++
		}
	}
	return e.counted() < acknowledged
}

// shared returns the number that two writers have minted for their own lock, or 0.
func (e *evidence) shared() int64 {
	minted := map[int64]bool{}
	for _, w := range e.writers {
		tok := w.tok.Load()
		if tok == nil || !e.subject.kept() {
			continue
		}
		if minted[tok.Number] {
			return tok.Number
		}
		minted[tok.Number] = true
	}
	return 0
}
