package process

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/simulations/history"
)

// fault puts down that A stands from now on.
func (s *stage) fault() *history.Open {
	return s.recorder.Begin(history.Op{Kind: history.Fault, Writer: "A", Resource: s.subject.Resource})
}

// look puts down what the resource remembers, and the mark.
func (s *stage) look(ctx context.Context) (int, error) {
	read := history.Op{Kind: history.Read, Writer: "test", Resource: s.subject.Resource, Outcome: history.Accepted, Began: s.recorder.Now()}
	counted, err := s.subject.Count(ctx)
	if err != nil {
		return 0, fmt.Errorf("process: Count: %w", err)
	}
	read.Counted, read.Ended = counted-s.base, s.recorder.Now()
	s.recorder.Add(read)
	if s.subject.Mark == nil {
		return counted, nil
	}
	op := history.Op{Kind: history.Mark, Writer: "test", Resource: s.subject.Resource, Outcome: history.Accepted, Began: s.recorder.Now()}
	mark, err := s.subject.Mark(ctx)
	if err != nil {
		return 0, fmt.Errorf("process: Mark: %w", err)
	}
	op.Number, op.Holder, op.Ended = mark.Number, mark.Holder, s.recorder.Now()
	s.recorder.Add(op)
	return counted, nil
}

// judge holds what everybody did against all rules. The twin's delays say
// nothing: nobody evicts there.
func (s *stage) judge(ctx context.Context) (Count, error) {
	for _, p := range []*peer{s.a, s.b} {
		if err := p.tell(s.recorder); err != nil {
			return s.count, err
		}
	}
	if _, err := s.look(ctx); err != nil {
		return s.count, err
	}
	h := s.recorder.History()
	h.Slack = slack
	if !s.twin {
		h.TTL, h.Bound = s.subject.TTL, s.subject.Bound
	}
	s.count.History = h
	var err error
	if s.count.Broken, err = history.Check(h); err != nil {
		return s.count, fmt.Errorf("process: %w", err)
	}
	return s.count, nil
}
