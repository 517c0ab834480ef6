package timeline_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/timeline"
)

const resource = "account/42"

// world makes histories in which holders take turns, and some write late.
type world struct {
	draw    *rand.Rand
	now     time.Duration
	guarded bool
	name    func(int) string
	ops     []history.Op
	late    []history.Op
}

func newWorld(seed uint64, guarded bool) *world {
	name := func(i int) string { return fmt.Sprintf("worker-%d", i) }
	return &world{draw: rand.New(rand.NewPCG(seed, 0)), guarded: guarded, name: name}
}

func (w *world) tick() time.Duration {
	w.now += time.Duration(1 + w.draw.IntN(3_000_000))
	return w.now
}

func (w *world) do(op history.Op, kind history.Kind, outcome history.Outcome) {
	op.Kind, op.Outcome = kind, outcome
	op.Began = w.tick()
	op.Ended = w.tick()
	if kind == history.Acquire {
		op.Until = op.Ended + 100*time.Millisecond
	}
	w.ops = append(w.ops, op)
}

// turns makes n holders take the lock, one after the other.
func (w *world) turns(holders, n int) history.History {
	for i := range n {
		name := w.name(w.draw.IntN(holders))
		op := history.Op{Writer: name, Resource: resource, Number: 179519105562000 + int64(7*i), Holder: fmt.Sprint(name, ":", i)}
		w.do(op, history.Acquire, history.Accepted)
		if w.guarded {
			w.do(op, history.Claim, history.Accepted)
		}
		switch {
		case w.draw.IntN(5) == 0:
			w.do(history.Op{Writer: name, Resource: resource, Note: "paused"}, history.Fault, history.Accepted)
			w.late = append(w.late, op)
			continue
		case w.draw.IntN(8) == 0:
			w.do(op, history.Write, history.Unknown)
		default:
			w.do(op, history.Write, history.Accepted)
		}
		w.do(op, history.Release, history.Accepted)
		w.resume()
	}
	return history.History{Ops: w.ops}
}

// resume makes a paused writer write.
func (w *world) resume() {
	if len(w.late) == 0 || w.draw.IntN(2) == 0 {
		return
	}
	outcome := history.Accepted
	if w.guarded {
		outcome = history.Refused
	}
	w.do(w.late[0], history.Write, outcome)
	w.late = w.late[1:]
}

// chart judges h.
func chart(t *testing.T, h history.History) timeline.Chart {
	t.Helper()
	broken, err := history.Check(h)
	require.NoError(t, err)
	return timeline.Chart{Title: "A chart", History: h, Violations: broken}
}

// guarded and unguarded are charts short enough to be shown whole.
func guarded(t *testing.T, seed uint64) timeline.Chart {
	s := chart(t, newWorld(seed, true).turns(3, 7))
	s.Violations = nil // of the lock: leases expire at once here
	return s
}

func unguarded(t *testing.T, seed uint64) timeline.Chart {
	return chart(t, newWorld(seed, false).turns(3, 9))
}
