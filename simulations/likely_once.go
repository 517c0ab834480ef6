package simulations

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/internal/history"
)

// otherUnit finds an undisturbed unit that was taken for another one.
func (e *evidence) otherUnit() []string {
	if !e.Breaks("once") || e.Interleaving != undisturbedName {
		return nil
	}
	repeats := slices.ContainsFunc(e.writers, func(w *writer) bool { return w.facts.now().repeated })
	switch {
	case repeats:
		return []string{oneKey}
	case e.subject.DoOnce != nil && e.missing():
		return []string{oneKey, outlives}
	}
	return nil
}

// tries finds why tries of one unit were not recognized as such, or why a try was taken for
// applied.
func (e *evidence) tries() []string {
	if e.subject.DoOnce == nil || !e.Breaks("once") {
		return nil
	}
	apart, keys := e.recordedApart(), e.keys()
	traced := len(e.covered.drivers) > 0
	switch {
	case e.counted() > 1 && len(keys) > 1:
		return []string{fmt.Sprintf(ownKey, strings.Join(keys[:2], " and "))}
	case apart != "":
		return []string{fmt.Sprintf(recorded, apart)}
	case e.counted() > 1 && e.some(func(t *transaction) bool { return t.retries && t.wrote() }):
		return []string{retried}
	case e.counted() > 1 && traced:
		return []string{unrecorded}
	case e.counted() > 1:
		return []string{unrecorded, fmt.Sprintf(recorded, "")}
	}
	for _, w := range e.writers {
		if f := w.facts.now(); f.refusedLast && w.outcome == history.Accepted {
			return []string{fmt.Sprintf(swallowed, f.refused[0])}
		}
	}
	if traced {
		return []string{kept}
	}
	return []string{kept, fmt.Sprintf(recorded, "")}
}

// counted returns how many units were counted at the end.
func (e *evidence) counted() (n int) {
	for _, op := range e.history.Ops {
		if op.Kind == history.Read {
			n = op.Counted
		}
	}
	return n
}

// keys returns the keys under which guards were to apply the unit.
func (e *evidence) keys() (keys []string) {
	for _, w := range e.writers {
		for _, key := range w.facts.now().tried {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// recordedApart returns a write of the unit outside of the guard's transaction, as
// [transaction.statement] does.
func (e *evidence) recordedApart() (sql string) {
	for _, w := range slices.Concat(e.shape, e.writers) {
		for _, t := range w.facts.now().all {
			if t.wrote() && !t.fenced() {
				sql = t.statement()
			}
		}
	}
	return sql
}
