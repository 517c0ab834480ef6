package simulate

import (
	"fmt"
	"slices"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// judge is who looks at the row, for the parent.
const judge = "judge"

// History is the round as [history.Check] judges it, with notes for people.
// What was not observed is not in it: that a lease is given back after the
// write is known from its having been asked for alone.
func (r *Round) History(ttl time.Duration) history.History {
	events := slices.Clone(r.Events)
	slices.SortStableFunc(events, func(a, b Event) int { return a.At.Compare(b.At) })
	t := &teller{round: r, ttl: ttl, began: map[string]time.Duration{}, number: map[string]int64{}}
	for _, e := range events {
		t.tell(e, e.At.Sub(events[0].At))
	}
	for _, l := range r.looks {
		t.look(l, l.at.Sub(events[0].At))
	}
	return history.History{Ops: t.ops}
}

// teller makes ops of events.
type teller struct {
	round  *Round
	ttl    time.Duration
	ops    []history.Op
	began  map[string]time.Duration // by writer: when it last said anything
	number map[string]int64         // by writer: of its token
	fell   time.Duration            // when A was stopped
}

func (t *teller) tell(e Event, at time.Duration) {
	switch e.Kind {
	case Holds:
		t.number[e.Writer] = e.Number
		t.expire(e.Writer, at)
		t.add(e, at, history.Op{Kind: history.Acquire, Until: at + t.ttl})
	case Claims:
		t.add(e, at, history.Op{Kind: history.Claim})
	case Reads:
		t.add(e, at, history.Op{Kind: history.Read, Note: fmt.Sprintf("reads %d", e.Balance)})
	case Checked:
		t.check(e, at)
	case Stopped:
		t.fell = at
		t.stop(e.Writer, at)
	case Continued:
		t.ops = append(t.ops, history.Op{Kind: history.Fault, Writer: e.Writer, Resource: t.round.Resource,
			Outcome: history.Accepted, Began: t.fell, Ended: at, Note: "stopped"})
	case Accepted, Refused:
		t.add(e, at, history.Op{Kind: history.Write, Note: fmt.Sprintf("writes %d", e.Balance)})
		t.give(e, at)
	}
	t.began[e.Writer] = at
}

// add adds what e's writer was at since its last event.
func (t *teller) add(e Event, at time.Duration, op history.Op) {
	op.Writer, op.Resource, op.Began, op.Ended = e.Writer, t.round.Resource, t.began[e.Writer], at
	op.Number, op.Holder = t.number[e.Writer], "writer-"+e.Writer
	op.Outcome = history.Accepted
	if e.Kind == Refused {
		op.Outcome = history.Refused
	}
	t.ops = append(t.ops, op)
}
