package simulations

import (
	"context"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/simulations/history"
)

const (
	// patience is how long nothing may happen at all before a run gives up.
	patience = time.Minute
	// longestAnswer is how long the director waits for an issuer.
	longestAnswer = time.Second
)

// stage is where one interleaving is performed.
type stage struct {
	subject  Subject
	twin     bool
	ctx      context.Context
	recorder *history.Recorder
	clock    *clock
	writers  []*writer
	base     int
	timed    bool // nobody but the sleepers is ever stopped in the middle
}

func newStage(ctx context.Context, s Subject, twin bool) (*stage, error) {
	st := &stage{subject: s, twin: twin, recorder: history.NewRecorder(), ctx: ctx}
	st.clock = &clock{now: st.recorder.Now}
	if twin && s.Unguarded == nil {
		st.ctx = point.Observe(ctx)
	}
	base, err := s.Count(ctx)
	if err != nil {
		return nil, fmt.Errorf("simulations: Count: %w", err)
	}
	st.base = base
	return st, st.look()
}

// unfenced reports whether the twin is code of its own, which claims nothing.
func (st *stage) unfenced() bool { return st.twin && st.subject.Unguarded != nil }

func (st *stage) do(ctx context.Context) error {
	if st.unfenced() {
		return st.subject.Unguarded(ctx)
	}
	return st.subject.Do(ctx)
}

func (st *stage) add(op history.Op) { st.recorder.Add(op) }

// look puts the guard's mark down.
func (st *stage) look() error {
	if st.subject.Mark == nil {
		return nil
	}
	op := history.Op{
		Kind: history.Mark, Writer: "judge", Resource: st.subject.Resource,
		Outcome: history.Accepted, Began: st.clock.tick(),
	}
	mark, err := st.subject.Mark(st.ctx)
	if err != nil {
		return fmt.Errorf("simulations: Mark: %w", err)
	}
	op.Number, op.Holder, op.Ended = mark.Number, mark.Holder, st.clock.tick()
	st.add(op)
	return nil
}
