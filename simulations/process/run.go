package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/rounds"
)

// Report is the result of a run.
type Report struct {
	Options
	Guarded, Twin Counts
}

// Run runs the rounds of o, guarded and as the twin, and logs what was counted. It fails
// t if a rule was broken, or if the twin was not corrupted.
func Run(t testing.TB, o Options) Report {
	t.Helper()
	r, err := Check(t, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	return r
}

// Check is [Run] for tests that expect a verdict. Instead of failing t it returns a
// [*Verdict], or another error if the rounds could not be run.
func Check(t testing.TB, o Options) (r Report, err error) {
	t.Helper()
	if r, err = RunGuarded(t, o); err != nil {
		return r, err
	}
	if r.Twin, err = run(t.Context(), r.Options, true); err != nil {
		return r, r.failed("the twin", err)
	}
	if r.vacuous() {
		return r, &Verdict{Report: r}
	}
	return r, nil
}

// RunGuarded is [Check] without the twin. It is for steps at which no stale write is
// attempted, such as those inside a transaction.
func RunGuarded(t testing.TB, o Options) (Report, error) {
	t.Helper()
	o, err := o.complete()
	r := Report{Options: o}
	if err != nil {
		return r, err
	}
	if r.Guarded, err = run(t.Context(), o, false); err != nil {
		return r, r.failed("guarded", err)
	}
	if len(r.Guarded.violations) > 0 {
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

// vacuous reports whether nothing was proven: the twin withstood a stale write, or no
// stale write was attempted.
func (r Report) vacuous() bool {
	return r.Guarded.Attempted == 0 || r.Twin.Attempted == 0 ||
		r.Twin.Accepted < r.Twin.Attempted || len(r.Twin.violations) == 0
}

// String returns both counts.
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

// Verdict is the error for code that breaks a rule, and for rounds that prove nothing.
type Verdict struct{ Report Report }

// Vacuous reports whether nothing was proven, because the twin was not corrupted by every
// stale write.
func (v *Verdict) Vacuous() bool { return len(v.Report.Guarded.violations) == 0 }

// Breaks reports whether the rule with the given id was broken.
func (v *Verdict) Breaks(id string) bool {
	return slices.ContainsFunc(v.Report.Guarded.violations, func(b history.Violation) bool { return b.Rule.ID == id })
}

func (v *Verdict) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "process: %s", v.Report)
	if v.Vacuous() {
		text.WriteString("\nvacuous: nothing was proven. A stale write must be attempted both with and without the guard, and without it the resource must accept every one. " +
			"A guard that is not Fencepost's needs Subject.Unguarded, and a service in another process too")
	}
	for _, broken := range v.Report.Guarded.violations {
		fmt.Fprintf(&text, "\n%s", broken)
	}
	return text.String()
}

// Counts are the results of some rounds.
type Counts struct {
	Rounds    int
	Attempted int // Attempted is the number of A's writes with an older token that began after B's was acknowledged, or were refused before they began.
	Accepted  int // Accepted is how many of Attempted were applied.
	Refused   int // Refused is how many of Attempted were refused.
	Early     int // Early is the number of A's units that were accepted before B's, or with a newer token.
	Lost      int // Lost is the number of acknowledged units of A and B that the resource does not contain.
	Blocked   int // Blocked is the number of rounds in which B could not finish before A was resumed.
	Duration  time.Duration

	// Steps are the steps of an undisturbed A.
	Steps []string
	// history contains the operations of both writers. violations are the broken rules,
	// each with the shortest history that breaks it.
	history    history.History
	violations []history.Violation
}

// String returns a line of a table.
func (c Counts) String() string {
	return fmt.Sprintf("%5d rounds, %5d stale writes attempted, %5d accepted, %5d refused, %4d early, %4d updates lost, %3d blocked, %6.1f s",
		c.Rounds, c.Attempted, c.Accepted, c.Refused, c.Early, c.Lost, c.Blocked, c.Duration.Seconds())
}

// add counts a round by the two answers, and by how many units more the resource remembers.
func (c *Counts) add(r rounds.Round, more int) {
	a, b := r.A, r.B
	c.Rounds++
	if r.Blocked {
		c.Blocked++
	}
	acknowledged := 0
	for _, answer := range []rounds.Answer{a, b} {
		if answer.Outcome == history.Accepted {
			acknowledged++
		}
	}
	c.Lost += max(0, acknowledged-more)
	older := a.Number > 0 && a.Number < b.Number
	late := older && (a.Wrote.After(b.At) || a.Outcome == history.Refused)
	switch {
	case late && a.Outcome == history.Accepted:
		c.Attempted++
		c.Accepted++
	case late && a.Outcome == history.Refused:
		c.Attempted++
		c.Refused++
	case late:
		c.Attempted++
	case a.Outcome == history.Accepted:
		c.Early++
	}
}
