package simulations

import (
	"context"
	"fmt"
)

// Interleavings are the names of all of a plan.
func Interleavings(steps []string) []string {
	var names []string
	for _, i := range interleavings(steps) {
		names = append(names, i.String())
	}
	return names
}

// Shuffle performs what seed draws, and says what everybody did.
func Shuffle(ctx context.Context, s Subject, seed uint64) ([]string, error) {
	s, err := s.complete()
	if err != nil {
		return nil, err
	}
	x, err := scout(ctx, s, false)
	if err != nil {
		return nil, err
	}
	st, err := newStage(ctx, s, false)
	if err != nil {
		return nil, err
	}
	x.moves(st, seed)
	err = st.judge()
	var did []string
	for _, op := range st.recorder.History().Ops {
		did = append(did, fmt.Sprintf("%s: %s %s", op.Writer, op.Kind, op.Outcome))
	}
	return did, err
}

// Stuck is what is said of a writer that does not end.
func Stuck(writer string, steps ...string) string {
	return (&stuckError{writer, patience, steps}).Error()
}

// Gate is a gate whose writer is stopped everywhere.
type Gate struct{ *gate }

// NewGate returns one.
func NewGate() Gate { return Gate{newGate(everywhere)} }

// Pass comes by.
func (g Gate) Pass(step string) { g.pass(step) }

// Next waits for somebody who is stopped, and says where.
func (g Gate) Next() string { return <-g.parked }

// Go lets one go on.
func (g Gate) Go() { g.resume <- struct{}{} }

// Open lets everybody go on.
func (g Gate) Open() { g.open() }
