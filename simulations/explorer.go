package simulations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// explorer performs interleavings of one subject, guarded or as its twin.
type explorer struct {
	subject Subject
	twin    bool
	steps   []string      // of a holder whom nobody disturbs
	normal  time.Duration // how long that takes
	blocked map[int]bool  // the steps at which a sleeper keeps others waiting
}

// scout lets two holders work one after the other, undisturbed, to learn the
// steps. Those of the first may differ from all others: pools connect, drivers
// prepare.
func scout(ctx context.Context, s Subject, twin bool) (*explorer, error) {
	st, err := newStage(ctx, s, twin)
	if err != nil {
		return nil, err
	}
	x := &explorer{subject: s, twin: twin, blocked: map[int]bool{}}
	var failed error
	for _, name := range []string{"A", "B"} {
		begun := time.Now()
		w, err := st.undisturbed(name)
		if err != nil {
			return nil, named(err, "undisturbed")
		}
		x.steps, x.normal = w.seen(), time.Since(begun)
		failed = errors.Join(failed, w.failed())
	}
	if err := also(st.sum(), failed); err != nil || twin {
		return x, named(err, "undisturbed")
	}
	return x, st.unseen()
}

// perform returns nil where every rule holds.
func (x *explorer) perform(ctx context.Context, i interleaving) error {
	st, err := newStage(ctx, x.subject, x.twin)
	if err != nil {
		return err
	}
	st.timed = true
	p := &performance{stage: st, interleaving: i, pace: x.pace(i.at)}
	p.perform()
	x.blocked[i.at] = p.pace.isBlocked
	return named(st.judge(), i.String())
}

func (x *explorer) pace(at int) pace {
	pace := pace{normal: x.normal, isBlocked: x.blocked[at]}
	if !x.twin {
		pace.limit = x.subject.Bound
	}
	return pace
}

// also adds to a verdict what Do said when nobody disturbed it, which is the
// error where there is no verdict.
func also(err, said error) error {
	var v *Verdict
	if errors.As(err, &v) {
		v.Said = said
		return v
	}
	return errors.Join(err, said)
}

// named gives a verdict its interleaving's name.
func named(err error, name string) error {
	var v *Verdict
	switch {
	case err == nil:
		return nil
	case errors.As(err, &v):
		v.Interleaving = name
		return v
	}
	return fmt.Errorf("%s: %w", name, err)
}

// corrupted reports whether err says that the resource was corrupted. What
// breaks a rule about locks or delays corrupts nothing.
func corrupted(err error) bool {
	var v *Verdict
	if !errors.As(err, &v) {
		return false
	}
	return slices.ContainsFunc([]string{"order", "holder", "once", "trace", "versions"}, v.Breaks)
}
