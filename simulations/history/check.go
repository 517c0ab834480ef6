package history

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Check judges h by every rule and returns the broken ones, at most one
// violation for each rule and resource. None and nil means that h is correct,
// as far as it tells. It takes O(n log n), on as many cores as there are, and
// does not change h.
//
// A malformed history is not judged: the error is an [*OpError], or says which
// limit is below zero.
//
// No correct history is accused. Where Began is earlier than the truth and
// Ended later, or an outcome is Unknown, Check can only miss a violation.
func Check(h History) ([]Violation, error) {
	return CheckOnly(h, func(Rule) bool { return true })
}

// CheckOnly is [Check] by those rules alone that are wanted: where a lock is known
// to have lost its memory, say, there is no need to hear of it.
func CheckOnly(h History, wanted func(Rule) bool) ([]Violation, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	all := stories(h)
	by := slices.DeleteFunc(slices.Clone(judges), func(j judge) bool { return !wanted(j.rule) })
	few := len(h.Ops) < 1000 // to wake another core takes longer
	parallel(len(all), few, func(i int) { all[i].fill() })
	verdicts := make([]*Violation, len(all)*len(by))
	parallel(len(verdicts), few, func(i int) {
		s, j := all[i/len(by)], by[i%len(by)]
		if v := j.judge(s); v != nil {
			v.Rule, v.Resource = j.rule, s.resource
			verdicts[i] = v
		}
	})
	var found []Violation
	for _, v := range verdicts {
		if v != nil {
			found = append(found, *v)
		}
	}
	return found, nil
}

// parallel calls do for each i below n, on all cores where there is enough to do.
func parallel(n int, few bool, do func(i int)) {
	if few {
		for i := range n {
			do(i)
		}
		return
	}
	var next atomic.Int64
	var working sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		working.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	working.Wait()
}

func (h *History) check() error {
	if h.TTL < 0 || h.Bound < 0 || h.Slack < 0 {
		return errors.New("history: a limit is below zero")
	}
	for i := range h.Ops {
		if err := h.Ops[i].Check(); err != nil {
			return err
		}
	}
	return nil
}
