package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/history"
)

// Report is the outcome of a run.
type Report struct {
	Rounds int     `json:"rounds"`
	TTL    int64   `json:"ttl_ms"`
	Issuer string  `json:"issuer"` // "redis" or "redis (embedded)"
	Store  string  `json:"store"`  // "postgres" or "sqlite (embedded)"
	Pause  string  `json:"pause"`  // "SIGSTOP" or "in-process"
	Runs   []Count `json:"runs"`
}

// Of returns the count of one way. It is zero if the way was not run.
func (r *Report) Of(way Way) Count {
	for _, count := range r.Runs {
		if count.Name == way {
			return count
		}
	}
	return Count{Name: way}
}

// Fenced reports whether the guard worked: stale writes were attempted, none was accepted,
// and no update was lost.
func (r *Report) Fenced() bool {
	c := r.Of(Guarded)
	return c.StaleAttempted > 0 && c.StaleAccepted == 0 && c.UpdatesLost == 0
}

// Corrupted reports whether updates were lost without a guard. If not, the run is no
// evidence for the guard.
func (r *Report) Corrupted() bool { return r.Of(Unguarded).UpdatesLost > 0 }

// Count has the figures of the rounds of one way.
type Count struct {
	Name           Way `json:"name"`
	StaleAttempted int `json:"stale_attempted"` // A wrote, or tried to, with a token older than B's
	StaleAccepted  int `json:"stale_accepted"`  // A's stale write is in the row, or was acknowledged
	UpdatesLost    int `json:"updates_lost"`    // acknowledged increments of A and B that the row does not have
	Refused        int `json:"refused"`         // A's write was refused as stale

	// Example is the first of the rounds.
	Example *Round `json:"-"`
}

// add counts a round. A refused write that the row has counts as accepted too: the database
// decides.
func (c *Count) add(r *Round) {
	if c.Example == nil {
		c.Example = r
	}
	c.StaleAttempted++
	c.UpdatesLost += len(r.Lost())
	if r.answerA.Kind == Accepted || r.row.has("A", amountA) {
		c.StaleAccepted++
	}
	if r.answerA.Kind == Refused {
		c.Refused++
	}
}

// observer is the parent's name in a history, where it reads the row.
const observer = "account"

// History returns the round for [history.Check], with notes for readers. It has only what
// was observed: a release was requested, but its answer was not observed.
func (r *Round) History(ttl time.Duration) history.History {
	events := slices.Clone(r.Events)
	slices.SortStableFunc(events, func(a, b Event) int { return a.At.Compare(b.At) })
	t := &historyBuilder{round: r, ttl: ttl, began: map[string]time.Duration{}, number: map[string]int64{}}
	for _, e := range events {
		t.addEvent(e, e.At.Sub(events[0].At))
	}
	for _, l := range r.reads {
		t.addRead(l, l.at.Sub(events[0].At))
	}
	return history.History{Ops: t.ops}
}

// historyBuilder makes ops of events.
type historyBuilder struct {
	round   *Round
	ttl     time.Duration
	ops     []history.Op
	began   map[string]time.Duration // the time of each writer's last event
	number  map[string]int64         // the number of each writer's token
	stopped time.Duration            // when A was stopped
}

func (t *historyBuilder) addEvent(e Event, at time.Duration) {
	switch e.Kind {
	case Holds:
		t.number[e.Writer] = e.Number
		t.expire(e.Writer, at)
		t.addOp(e, at, history.Op{Kind: history.Acquire, Until: at + t.ttl})
	case Claims:
		t.addOp(e, at, history.Op{Kind: history.Claim})
	case Reads:
		t.addOp(e, at, history.Op{Kind: history.Read, Note: fmt.Sprintf("reads %d", e.Balance)})
	case Checked:
		t.check(e, at)
	case Stopped:
		t.stopped = at
		t.stop(e.Writer, at)
	case Continued:
		t.ops = append(t.ops, history.Op{Kind: history.Fault, Writer: e.Writer, Resource: t.round.Resource,
			Outcome: history.Accepted, Began: t.stopped, Ended: at, Note: "stopped"})
	case Accepted, Refused:
		t.addOp(e, at, history.Op{Kind: history.Write, Note: fmt.Sprintf("writes %d", e.Balance)})
		t.addRelease(e, at)
	}
	t.began[e.Writer] = at
}

// addOp adds the operation that e ends, which began at its writer's last event.
func (t *historyBuilder) addOp(e Event, at time.Duration, op history.Op) {
	op.Writer, op.Resource, op.Began, op.Ended = e.Writer, t.round.Resource, t.began[e.Writer], at
	op.Number, op.Holder = t.number[e.Writer], "writer-"+e.Writer
	op.Outcome = history.Accepted
	if e.Kind == Refused {
		op.Outcome = history.Refused
	}
	t.ops = append(t.ops, op)
}

// expire ends the leases of other writers no later than at, when writer acquired the lock.
func (t *historyBuilder) expire(writer string, at time.Duration) {
	for i := range t.ops {
		if op := &t.ops[i]; op.Writer != writer && op.Until > at {
			op.Until = at
		}
	}
}

// stop sets the end of the lease of a writer that was stopped at at: its last possible
// renewal was then.
func (t *historyBuilder) stop(writer string, at time.Duration) {
	for i := range slices.Backward(t.ops) {
		if op := &t.ops[i]; op.Writer == writer && op.Until > 0 {
			op.Until = at + t.ttl
			return
		}
	}
}

// check adds the check before a write without a guard: a renewal in Redis, or a read of the
// row's mark. The mark is 0, since no write was before it.
func (t *historyBuilder) check(e Event, at time.Duration) {
	if t.round.Way == Recheck {
		t.addOp(e, at, history.Op{Kind: history.Renew, Until: at + t.ttl, Note: precheck[Recheck] + ": yes"})
		return
	}
	t.addOp(e, at, history.Op{Kind: history.Mark, Note: precheck[CheckThenWrite] + ": yes"})
	read := &t.ops[len(t.ops)-1]
	read.Number, read.Holder = 0, ""
}

// addRelease adds the release of B, which still has the lock. Its answer is not observed.
func (t *historyBuilder) addRelease(e Event, at time.Duration) {
	if e.Writer == "B" {
		t.ops = append(t.ops, history.Op{Kind: history.Release, Writer: e.Writer, Resource: t.round.Resource,
			Outcome: history.Unknown, Began: at, Ended: at, Number: t.number[e.Writer], Holder: "writer-" + e.Writer, Note: "gives the lock back"})
	}
}

// balanceRead is the balance as the parent read it.
type balanceRead struct {
	at      time.Time
	balance int64
}

func (t *historyBuilder) addRead(l balanceRead, at time.Duration) {
	note := fmt.Sprintf("balance %d", l.balance)
	if lost := t.round.Lost(); len(lost) > 0 && l.balance == t.round.Final {
		note += ": " + strings.Join(lost, ", ") + " is gone"
	}
	t.ops = append(t.ops, history.Op{Kind: history.Read, Writer: observer, Resource: t.round.Resource,
		Outcome: history.Accepted, Began: at, Ended: at, Note: note})
}
