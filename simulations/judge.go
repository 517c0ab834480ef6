package simulations

import (
	"fmt"

	"github.com/fencepost/fencepost/simulations/history"
)

// judge ends the performance: all writers come to their ends, a new holder
// writes, the units are counted, and the history is judged.
func (st *stage) judge() error {
	if err := st.finish(); err != nil {
		return err
	}
	after, err := st.undisturbed("Z")
	if err != nil {
		return err
	}
	if st.twin {
		return st.sum()
	}
	return also(st.sum(), after.failed())
}

// sum counts the units and judges the history.
func (st *stage) sum() error {
	if err := st.count(); err != nil {
		return err
	}
	if err := st.look(); err != nil {
		return err
	}
	return st.verdict()
}

func (st *stage) count() error {
	op := history.Op{
		Kind: history.Read, Writer: "judge", Resource: st.subject.Resource,
		Outcome: history.Accepted, Began: st.clock.tick(),
	}
	counted, err := st.subject.Count(st.ctx)
	if err != nil {
		return fmt.Errorf("simulations: Count: %w", err)
	}
	op.Counted, op.Ended = counted-st.base, st.clock.tick()
	st.add(op)
	return nil
}

// verdict is nil where every rule holds, else a *Verdict.
func (st *stage) verdict() error {
	h := st.recorder.History()
	h.Slack = slack
	if !st.twin {
		h.TTL = st.subject.TTL
	}
	if st.timed && !st.twin {
		h.Bound = st.subject.Bound
	}
	broken, err := history.Check(h)
	if err != nil {
		return fmt.Errorf("simulations: %w", err)
	}
	if len(broken) > 0 {
		return &Verdict{Broken: broken, History: h}
	}
	if st.twin {
		return nil
	}
	return history.SecondOpinion(h, patience)
}
