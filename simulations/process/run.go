package process

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Report is what Run counted.
type Report struct {
	Options
	Guarded, Twin Count
}

// Run runs the rounds of o, guarded and as the twin, logs what was counted, and
// fails t where a rule was broken or the twin was not.
func Run(t testing.TB, o Options) Report {
	t.Helper()
	r, err := Examine(t, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	return r
}

// Examine is Run for those who expect the worst: it returns what Run fails with,
// a [*Verdict] or an error that kept it from running at all.
func Examine(t testing.TB, o Options) (r Report, err error) {
	t.Helper()
	if r, err = Guarded(t, o); err != nil {
		return r, err
	}
	if r.Twin, err = run(t.Context(), r.Options, true); err != nil {
		return r, r.failed("the twin", err)
	}
	if r.toothless() {
		return r, &Verdict{Report: r}
	}
	return r, nil
}

// Guarded runs no twin: for steps at which nobody comes too late, inside a
// transaction say, so that nothing stale is attempted in either.
func Guarded(t testing.TB, o Options) (Report, error) {
	t.Helper()
	o, err := o.complete()
	r := Report{Options: o}
	if err != nil {
		return r, err
	}
	if r.Guarded, err = run(t.Context(), o, false); err != nil {
		return r, r.failed("guarded", err)
	}
	if len(r.Guarded.Broken) > 0 {
		return r, &Verdict{Report: r}
	}
	return r, nil
}

func (r Report) failed(which string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("process: %s, %s, seed %d: %w", r.Subject, which, r.Seed, err)
}

// toothless reports whether the twin withstood a stale write, or one of the two
// was never put to one: then nothing was proven.
func (r Report) toothless() bool {
	return r.Guarded.Attempted == 0 || r.Twin.Attempted == 0 ||
		r.Twin.Accepted < r.Twin.Attempted || len(r.Twin.Broken) == 0
}

// String returns the two counts.
func (r Report) String() string {
	at := r.At
	if at == Everywhere {
		at = "everywhere"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s, %s, at %q, seed %d", r.Subject, r.Pause, at, r.Seed)
	fmt.Fprintf(&text, "\nguarded %s", r.Guarded)
	if r.Twin.Rounds > 0 {
		fmt.Fprintf(&text, "\ntwin    %s", r.Twin)
	}
	return text.String()
}
