package simulations

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/history"
)

// coverage counts what a run has performed, and what it could not observe.
type coverage struct {
	planned, performed, drawn int
	drivers                   []string
	evicted, lost, waited     int
	idles                     bool   // a guard can have the server end idle transactions
	guarded                   bool   // a guard of Fencepost was called
	hidden                    int    // units that hid a refusal behind another error
	beside                    string // a write outside a guard's open transaction, as quoted returns it
}

// observe adds what the writers of st have done.
func (c *coverage) observe(st *stage) {
	for _, w := range st.writers {
		f := &w.facts
		if refusals := f.refusals(); len(refusals) > 0 && w.outcome == history.Unknown && !w.dead.Load() && !errors.Is(w.said, guard.ErrUnknown) {
			c.hidden++
		}
		if evicted(w.said) {
			c.evicted++
		}
		f.set(func(f *facts) {
			for _, driver := range f.drivers {
				if !slices.Contains(c.drivers, driver) {
					c.drivers = append(c.drivers, driver)
				}
			}
			c.lost += f.lost
			c.idles = c.idles || f.idles
			for _, t := range f.all {
				if t.beside && t.wrote() && !t.fenced() {
					c.beside = t.quoted()
				}
			}
			c.guarded = c.guarded || f.admitted || slices.ContainsFunc(f.all, (*transaction).fenced)
		})
	}
}

// evicted reports whether the server ended a transaction because it was idle. A guard's
// error reports that for its own transaction, and the SQLSTATE for the caller's.
func evicted(err error) bool {
	var state interface{ SQLState() string }
	return errors.Is(err, guard.ErrEvicted) || errors.As(err, &state) && state.SQLState() == "25P03"
}

// count adds an interleaving of the plan.
func (c *coverage) count(p *performance) {
	c.observe(p.stage)
	c.performed++
	if p.waited {
		c.waited++
	}
}

func (c *coverage) add(other coverage) {
	c.planned, c.performed, c.drawn = c.planned+other.planned, c.performed+other.performed, c.drawn+other.drawn
	c.evicted, c.lost, c.waited = c.evicted+other.evicted, c.lost+other.lost, c.waited+other.waited
	c.hidden += other.hidden
	c.idles, c.guarded = c.idles || other.idles, c.guarded || other.guarded
	c.beside = cmp.Or(c.beside, other.beside)
	c.drivers = slices.Compact(slices.Sorted(slices.Values(append(c.drivers, other.drivers...))))
}

// String returns what a pass covers, followed by one line for each thing that it does not
// cover.
func (c *coverage) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "simulations: covered: %d of %d interleavings of the plan, %d random ones", c.performed, c.planned, c.drawn)
	if len(c.drivers) > 0 {
		fmt.Fprintf(&text, "; tracers: %s", strings.Join(slices.Sorted(slices.Values(c.drivers)), ", "))
	}
	if c.evicted > 0 {
		fmt.Fprintf(&text, "; %d units were evicted by the server while they slept", c.evicted)
	}
	if c.lost > 0 {
		fmt.Fprintf(&text, "; %d answers to writes were lost", c.lost)
	}
	if len(c.drivers) == 0 {
		text.WriteString("\nsimulations: not covered: no tracer: writes outside the guard were not observed (pgxpoint.Tracer, sqlpoint.Open, httppoint.Transport)")
	}
	if c.evicted == 0 {
		text.WriteString("\nsimulations: not covered: no paused holder was evicted from a transaction")
		if !c.idles {
			text.WriteString(": no guard was called whose server ends idle transactions within milliseconds, as PostgreSQL does")
		}
	}
	if c.evicted == 0 && c.beside != "" {
		fmt.Fprintf(&text, "\nsimulations: not covered: a statement went around the guard's transaction while that was open%s: it is a stale write if the server ends the transaction of a paused holder", c.beside)
	}
	if c.waited > 0 {
		fmt.Fprintf(&text, "\nsimulations: not covered: in %d interleavings a writer waited for a paused holder, for another lock or a row, and wrote only after it", c.waited)
	}
	if c.hidden > 0 {
		fmt.Fprintf(&text, "\nsimulations: not covered: %d units were refused and hid it: errors.Is finds no refusal in Do's error, so traces of these units were not checked", c.hidden)
	}
	if c.lost == 0 {
		text.WriteString("\nsimulations: not covered: no answer to a write was lost: no guard or tracer reported a COMMIT")
	}
	return text.String()
}
