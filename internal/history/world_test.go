package history_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/internal/history"
)

// world is a correct issuer and a correct guarded resource with a clock of its own. Its
// writers pause, lose answers, and leave leases unreleased. At every tick one writer
// takes one step.
type world struct {
	rng  *rand.Rand
	name string
	now  time.Duration
	ops  []history.Op

	closing bool // writers begin no new ops

	// The issuer.
	last   int64
	holder string
	until  time.Duration
	grants int

	// The resource.
	mark, version int64
	owner         string
	units         int
	delayed       []func() // applied some time after the callers stopped waiting
}

const leaseTTL = 60 * time.Millisecond

func newWorld(seed uint64, name string) *world {
	return &world{rng: rand.New(rand.NewPCG(seed, 3)), name: name}
}

// live runs writers until there are at least n ops.
func (w *world) live(writers, n int) []history.Op {
	var steps []func()
	for i := range writers {
		steps = append(steps, w.writer(fmt.Sprintf("%c", 'A'+i)))
	}
	steps = append(steps, w.reader())
	for len(w.ops) < n {
		w.now += time.Duration(1+w.rng.IntN(3)) * time.Millisecond
		if len(w.delayed) > 0 && w.rng.IntN(8) == 0 {
			w.delayed[0]()
			w.delayed = w.delayed[1:]
		}
		steps[w.rng.IntN(len(steps))]()
	}
	w.closing = true
	for range 3 {
		for _, step := range steps {
			w.now++
			step()
		}
	}
	return w.ops
}

// plan is the next op of a writer, in steps: begin, effect, end.
type plan struct {
	op      history.Op
	effect  func(*history.Op)
	after   func(history.Op)
	applied bool
}

// task returns a function that runs the plans of next, one step for each call.
func (w *world) task(next func() *plan) func() {
	var p *plan
	return func() {
		switch {
		case p == nil:
			if w.closing {
				return
			}
			if p = next(); p != nil {
				p.op.Began, p.op.Resource = w.now, w.name
			}
			return
		case !p.applied:
			p.effect(&p.op)
			p.applied = true
			return
		}
		done := p
		p = nil
		done.op.Ended = w.now
		w.ops = append(w.ops, done.op)
		if done.after != nil {
			done.after(done.op)
		}
	}
}

func (w *world) writer(name string) func() {
	var tok history.Op // the number and holder of the last grant
	var claimed bool
	var pause int
	return w.task(func() *plan {
		if pause > 0 {
			pause--
			return nil
		}
		if tok.Number == 0 {
			claimed = false
			return w.acquire(name, &tok)
		}
		switch choice := w.rng.IntN(12); {
		case choice == 0:
			pause = w.rng.IntN(12)
			return nil
		case choice == 1:
			return w.renew(name, tok)
		case choice == 2:
			return w.release(name, &tok)
		case choice == 3:
			tok = history.Op{} // forgotten, not released
			return nil
		case !claimed || choice == 4:
			return w.change(history.Claim, name, &tok, &claimed)
		case choice < 8:
			return w.change(history.Unit, name, &tok, &claimed)
		default:
			return w.change(history.Write, name, &tok, &claimed)
		}
	})
}

func (w *world) acquire(name string, tok *history.Op) *plan {
	w.grants++
	holder := fmt.Sprintf("%s%d", name, w.grants)
	return &plan{
		op: history.Op{Kind: history.Acquire, Writer: name, Holder: holder},
		effect: func(op *history.Op) {
			op.Outcome = history.Refused
			if w.now < w.until {
				return
			}
			w.last += int64(1 + w.rng.IntN(3))
			w.holder, w.until = holder, w.now+leaseTTL
			op.Number, op.Outcome, op.Until = w.last, history.Accepted, op.Began+leaseTTL
			if w.rng.IntN(8) == 0 {
				op.Outcome, op.Until = history.Unknown, 0
			}
		},
		after: func(op history.Op) {
			if op.Outcome == history.Accepted {
				*tok = op
			}
		},
	}
}

func (w *world) renew(name string, tok history.Op) *plan {
	return &plan{
		op: history.Op{Kind: history.Renew, Writer: name, Number: tok.Number, Holder: tok.Holder},
		effect: func(op *history.Op) {
			op.Outcome = history.Refused
			if w.holder == tok.Holder && w.now < w.until {
				w.until = w.now + leaseTTL
				op.Outcome, op.Until = history.Accepted, op.Began+leaseTTL
			}
		},
	}
}

func (w *world) release(name string, tok *history.Op) *plan {
	held := *tok
	*tok = history.Op{}
	return &plan{
		op: history.Op{Kind: history.Release, Writer: name, Number: held.Number, Holder: held.Holder},
		effect: func(op *history.Op) {
			op.Outcome = history.Refused
			if w.holder == held.Holder && w.now < w.until {
				w.until = w.now
				op.Outcome = history.Accepted
			}
			if w.rng.IntN(6) == 0 {
				op.Outcome = history.Unknown
			}
		},
	}
}

// change claims, writes or does a unit under tok, and clears tok if it is refused. The
// answer may be lost, and the request may be applied later.
func (w *world) change(kind history.Kind, name string, tok *history.Op, claimed *bool) *plan {
	seen := w.version
	apply := func(op *history.Op) {
		op.Outcome = history.Refused
		if op.Number > w.mark || op.Number == w.mark && op.Holder == w.owner {
			w.admit(op)
			op.Outcome = history.Accepted
		}
	}
	return &plan{
		op: history.Op{Kind: kind, Writer: name, Number: tok.Number, Holder: tok.Holder},
		effect: func(op *history.Op) {
			if kind == history.Write && w.rng.IntN(2) == 0 && seen > 0 {
				op.Seen = seen // read after the claim
			}
			switch w.rng.IntN(16) {
			case 0: // rolled back
				op.Outcome, op.Seen = history.Failed, 0
			case 1: // applied, and the answer is lost
				apply(op)
				op.Outcome, op.Seen, op.Made = history.Unknown, 0, 0
			case 2: // lost, or applied later
				late := *op
				op.Outcome, op.Seen = history.Unknown, 0
				w.delayed = append(w.delayed, func() { apply(&late) })
			default:
				apply(op)
			}
		},
		after: func(op history.Op) {
			*claimed = *claimed || op.Kind == history.Claim && op.Outcome == history.Accepted
			if op.Outcome == history.Refused || op.Outcome == history.Unknown {
				*tok = history.Op{}
			}
		},
	}
}

func (w *world) admit(op *history.Op) {
	w.mark, w.owner = op.Number, op.Holder
	switch op.Kind {
	case history.Unit:
		w.units++
	case history.Write:
		w.version++
		op.Made = w.version
	}
}

func (w *world) reader() func() {
	return w.task(func() *plan {
		if w.rng.IntN(2) == 0 {
			return &plan{
				op:     history.Op{Kind: history.Read, Writer: "reader", Outcome: history.Accepted},
				effect: func(op *history.Op) { op.Counted = w.units },
			}
		}
		return &plan{
			op:     history.Op{Kind: history.Mark, Writer: "reader", Outcome: history.Accepted},
			effect: func(op *history.Op) { op.Number, op.Holder = w.mark, w.owner },
		}
	})
}
