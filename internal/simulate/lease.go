package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// expire ends the lease of the other writer at the latest when this one holds
// the lock.
func (t *teller) expire(writer string, at time.Duration) {
	for i := range t.ops {
		if op := &t.ops[i]; op.Writer != writer && op.Until > at {
			op.Until = at
		}
	}
}

// stop is the last moment at which a writer can have renewed its lease.
func (t *teller) stop(writer string, at time.Duration) {
	for i := range slices.Backward(t.ops) {
		if op := &t.ops[i]; op.Writer == writer && op.Until > 0 {
			op.Until = at + t.ttl
			return
		}
	}
}

// check is what a naive way asks before it writes: Redis, by a renewal, or the
// row, for its mark. Nobody has written when it looks, so that is 0.
func (t *teller) check(e Event, at time.Duration) {
	if t.round.Way == Recheck {
		t.add(e, at, history.Op{Kind: history.Renew, Until: at + t.ttl, Note: "still mine"})
		return
	}
	t.add(e, at, history.Op{Kind: history.Mark, Note: "may write"})
	looked := &t.ops[len(t.ops)-1]
	looked.Number, looked.Holder = 0, ""
}

// give gives the lock back, if the writer still has it: nobody waits for the
// answer.
func (t *teller) give(e Event, at time.Duration) {
	if e.Writer == "B" {
		t.ops = append(t.ops, history.Op{Kind: history.Release, Writer: e.Writer, Resource: t.round.Resource,
			Outcome: history.Unknown, Began: at, Ended: at, Number: t.number[e.Writer], Holder: "writer-" + e.Writer, Note: "gives the lock back"})
	}
}

// look is the balance as the parent read it.
type look struct {
	at      time.Time
	balance int64
}

func (t *teller) look(l look, at time.Duration) {
	note := fmt.Sprintf("balance %d", l.balance)
	if lost := t.round.Lost(); len(lost) > 0 && l.balance == t.round.Final {
		note += ": " + strings.Join(lost, ", ") + " is gone"
	}
	t.ops = append(t.ops, history.Op{Kind: history.Read, Writer: judge, Resource: t.round.Resource,
		Outcome: history.Accepted, Began: at, Ended: at, Note: note})
}
