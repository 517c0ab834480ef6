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
	ended, ofTwo              int // interleavings of two holders that were performed before Limit ended them, and all
	drivers                   []string
	evicted, lost, waited     int
	repeated                  int    // units that got a first result
	dropped                   int    // units of which a write was lost before it reached its server
	reentered                 bool   // Do took the lock inside of the run's Hold
	unheard                   int    // writes over traced connections under contexts that are not Do's
	unheardSQL                string // one of them
	unguarded                 string // a write with no guard in its transaction, as quote returns it
	idles                     bool   // a guard can have the server end idle transactions
	guarded                   bool   // a guard of Fencepost was called
	hidden                    int    // units that hid a refusal behind another error
	beside                    string // a write outside a guard's open transaction, as quoted returns it
}

// observe adds what the writers of st have done.
func (c *coverage) observe(st *stage) {
	n, sql := st.unheard.count()
	c.unheard, c.unheardSQL = c.unheard+n, cmp.Or(c.unheardSQL, sql)
	for _, w := range st.writers {
		f := w.facts.now()
		if len(f.refused) > 0 && w.outcome == history.Unknown && !w.dead.Load() && !errors.Is(w.said, guard.ErrUnknown) {
			c.hidden++
		}
		if evicted(w.said) {
			c.evicted++
		}
		c.drivers = slices.Compact(slices.Sorted(slices.Values(append(c.drivers, f.drivers...))))
		c.lost += f.lost
		if f.dropped {
			c.dropped++
		}
		if f.repeated {
			c.repeated++
		}
		c.reentered = c.reentered || f.reentered
		c.idles = c.idles || f.idles
		for _, t := range f.all {
			if !t.wrote() || t.fenced() {
				continue
			}
			c.unguarded = t.statement()
			if t.beside {
				c.beside = t.statement()
			}
		}
		c.guarded = c.guarded || f.admitted || f.some((*transaction).fenced)
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

// String returns what a pass covers, followed by one line for each thing that it does not
// cover.
func (c *coverage) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "simulations: covered: %d of %d interleavings of the plan, %d random ones", c.performed, c.planned, c.drawn)
	if len(c.drivers) > 0 {
		fmt.Fprintf(&text, "; tracers: %s (writes over other connections were not observed)", strings.Join(c.drivers, ", "))
	}
	if c.evicted > 0 {
		fmt.Fprintf(&text, "; %d units were evicted by the server while they slept", c.evicted)
	}
	if c.lost > 0 {
		fmt.Fprintf(&text, "; %d answers to writes were lost", c.lost)
	}
	if c.repeated > 0 {
		fmt.Fprintf(&text, "; %d tries of a unit got its first result", c.repeated)
	}
	for _, gap := range slices.Concat(c.unobserved(), c.uncompared(), c.unperformed()) {
		text.WriteString("\nsimulations: not covered: " + gap)
	}
	return text.String()
}

// unseenError returns an error for a pass that did not observe all that Do wrote, unless s
// gives a reason. Without it such a pass would be silent: `go test` prints no log of a test
// that passes.
func (c *coverage) unseenError(s Subject) error {
	gaps := c.unobserved()
	if len(gaps) == 0 || s.Unseen != "" || c.performed+c.drawn == 0 {
		return nil
	}
	return fmt.Errorf("simulations: no rule was broken, but the run did not see all that Do wrote:\n- %s\nIf that is intended, set Subject.Unseen to the reason",
		strings.Join(gaps, "\n- "))
}

// gaps are sentences about what a run did not cover.
type gaps []string

func (g *gaps) say(format string, args ...any) { *g = append(*g, fmt.Sprintf(format, args...)) }

// unobserved returns what no tracer or guard reported.
func (c *coverage) unobserved() (found gaps) {
	say := found.say
	switch {
	case len(c.drivers) == 0:
		say("no tracer: writes outside the guard were not observed. Add that of your driver in the test: config.ConnConfig.Tracer = pgxpoint.Tracer{}, sqlpoint.Open(name, dsn), client.AddHook(new(redispoint.Hook)), httppoint.Transport")
	case slices.Equal(c.drivers, []string{"HTTP"}):
		say("only HTTP was heard: writes of the service were not observed (httppoint.Handler around it, and the tracer of its driver)")
	}
	if c.unheard > 0 {
		say("%d writes under a context that is not Do's: not observed%s: pass ctx on (GORM: db.WithContext(ctx)), and run no other test over the same connections meanwhile", c.unheard, quote(c.unheardSQL))
	}
	if c.hidden > 0 {
		say("%d units were refused and hid it: errors.Is finds no refusal in Do's error, so traces of these units were not checked", c.hidden)
	}
	if c.reentered {
		say("Do takes the lock itself, inside of the run's Hold: without that its context may have no token. Set Subject.Holds")
	}
	return found
}

// uncompared returns what was reported, and with no mark compared in its transaction. It may
// be fenced all the same, as by rowguard.Fence: a write that is not breaks a rule.
func (c *coverage) uncompared() (found gaps) {
	say := found.say
	switch {
	case c.evicted == 0 && c.beside != "":
		say("a statement went around the guard's transaction while that was open%s: it is a stale write if the server ends the transaction of a paused holder", c.beside)
	case c.guarded && c.unguarded != "":
		say("a write was made outside a guard%s: no token is compared in its transaction, so a paused holder can make it after its successor has written", c.unguarded)
	}
	return found
}

// unperformed returns what did not happen in any interleaving.
func (c *coverage) unperformed() (found gaps) {
	say := found.say
	if c.ended > 0 {
		say("Limit ended the plan: %d of %d interleavings of two holders were performed", c.ended, c.ofTwo)
	}
	switch {
	case c.evicted == 0 && c.idles:
		say("no paused holder was evicted from a transaction")
	case c.evicted == 0:
		say("no paused holder was evicted from a transaction: no guard was called whose server ends idle transactions within milliseconds, as PostgreSQL does")
	}
	if c.waited > 0 {
		say("in %d interleavings a writer waited for a paused holder, for another lock or a row, and wrote only after it", c.waited)
	}
	switch {
	case c.lost == 0:
		say("no answer to a write was lost: no guard or tracer reported a COMMIT")
	case c.dropped == 0:
		say("no write was lost before it reached its server, so an unknown outcome that Do takes for a success was not tested")
	}
	return found
}
