package lockset

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Report is what came of a run, or of several: see [Report.Add].
type Report struct {
	Runs     int
	Length   time.Duration // of all runs
	Pauses   int
	Paused   time.Duration // by all pauses, whatever the number of processes that stood
	Longer   int           // pauses that lasted longer than the ttl
	Servers  string        // and their versions
	Troubles int           // additions that could not even begin
	Trouble  string        // the last of them
	Counts   []Count       // in the order of [Config.Ways]
}

// Add adds the figures of another run of the same ways.
func (r *Report) Add(other *Report) {
	if r.Runs == 0 {
		*r = *other
		return
	}
	r.Runs += other.Runs
	r.Length += other.Length
	r.Pauses += other.Pauses
	r.Paused += other.Paused
	r.Longer += other.Longer
	r.Troubles += other.Troubles
	r.Trouble = other.Trouble
	for i, c := range other.Counts {
		r.Counts[i] = r.Counts[i].plus(c)
	}
}

// Of returns the count of a way; the zero Count if it was not run.
func (r *Report) Of(way Way) Count {
	for _, c := range r.Counts {
		if c.Way == way {
			return c
		}
	}
	return Count{}
}

// Verdict is nil where nothing was lost behind the fence, no set has what was
// refused, and every way was at work.
func (r *Report) Verdict() error {
	var errs []error
	for _, c := range r.Counts {
		if c.Acknowledged == 0 {
			errs = append(errs, fmt.Errorf("lockset: %s: nothing was acknowledged: %s", c.Way, r.Trouble))
		}
		if c.Way.Fenced() && c.Lost > 0 {
			errs = append(errs, fmt.Errorf("lockset: %s: %d of %d acknowledged additions were lost", c.Way, c.Lost, c.Acknowledged))
		}
		if c.Ghosts > 0 {
			errs = append(errs, fmt.Errorf("lockset: %s: the set has %d members that it must not have", c.Way, c.Ghosts))
		}
	}
	return errors.Join(errs...)
}

// Toothless is an error where the lock alone lost nothing: then the others
// prove nothing.
func (r *Report) Toothless() error {
	if r.Of(LockOnly).Lost > 0 {
		return nil
	}
	return errors.New("lockset: toothless: the lock alone lost nothing")
}

// String is the table, in Markdown, under a line that says what was run.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; runs: %d, %v in all; pauses: %d, %v in all, %d of them longer than the ttl\n\n", r.Servers,
		r.Runs, r.Length.Round(time.Second), r.Pauses, r.Paused.Round(time.Second), r.Longer)
	b.WriteString("| | acknowledged | lost | of these | refused | failed | unknown |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for _, c := range r.Counts {
		fmt.Fprintf(&b, "| %s | %d | %d | %.1f %% | %d | %d | %d |\n", c.Way.title(),
			c.Acknowledged, c.Lost, c.LostPercent(), c.Refused, c.Failed, c.Unknown)
	}
	return b.String()
}
