package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/rounds"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/simulations"
)

// counter counts, in the test's process, what the rounds of a subject or its twin do to the
// resource.
type counter struct {
	subject  simulations.Subject
	recorder *history.Recorder
	count    Counts
	first    int // what the resource counted before the first unit
	before   int // and before the round
}

// run runs all rounds and checks the history.
func run(ctx context.Context, o Options, twin bool) (counts Counts, err error) {
	began := time.Now()
	defer func() { counts.Duration = time.Since(began) }()
	subject, end, err := open(ctx, o.Subject, o.Conf)
	if err != nil {
		return counts, err
	}
	defer func() { err = errors.Join(err, end()) }()
	writer, err := subprocess.Self("writer", writerRole)
	if err != nil {
		return counts, err
	}
	c := &counter{subject: subject, recorder: history.NewRecorder()}
	if c.first, err = c.subject.Count(ctx); err != nil {
		return counts, fmt.Errorf("process: Count: %w", err)
	}
	c.count.Steps, err = rounds.Run(ctx, rounds.Options{
		Writer: writer, Subject: o.Subject, Conf: o.Conf, Twin: twin,
		Resource: subject.Resource, TTL: subject.TTL, MaxBlocking: subject.MaxBlocking,
		Pause: o.Pause, At: o.At, Nth: o.Nth, Rounds: o.Rounds, Seed: o.Seed,
		Recorder: c.recorder, Observe: c.observe,
	})
	if err == nil {
		err = c.judge(ctx, twin)
	}
	return c.count, err
}

func (c *counter) observe(ctx context.Context, at rounds.Moment, r rounds.Round) (err error) {
	switch at {
	case rounds.Begins:
		c.before, err = c.look(ctx)
	case rounds.Ended:
		after, err := c.look(ctx)
		if err != nil {
			return err
		}
		c.count.add(r, after-c.before)
	}
	return err
}

// look records the count of the resource, and the mark.
func (c *counter) look(ctx context.Context) (int, error) {
	read := history.Op{Kind: history.Read, Writer: "test", Resource: c.subject.Resource, Outcome: history.Accepted, Began: c.recorder.Now()}
	counted, err := c.subject.Count(ctx)
	if err != nil {
		return 0, fmt.Errorf("process: Count: %w", err)
	}
	read.Counted, read.Ended = counted-c.first, c.recorder.Now()
	c.recorder.Add(read)
	if c.subject.Mark == nil {
		return counted, nil
	}
	op := history.Op{Kind: history.Mark, Writer: "test", Resource: c.subject.Resource, Outcome: history.Accepted, Began: c.recorder.Now()}
	mark, err := c.subject.Mark(ctx)
	if err != nil {
		return 0, fmt.Errorf("process: Mark: %w", err)
	}
	op.Number, op.Holder, op.Ended = mark.Number, mark.Holder, c.recorder.Now()
	c.recorder.Add(op)
	return counted, nil
}

// judge checks the history by all rules. For the twin, delays are ignored, because no
// server evicts there.
func (c *counter) judge(ctx context.Context, twin bool) (err error) {
	if _, err := c.look(ctx); err != nil {
		return err
	}
	h := c.recorder.History()
	h.Slack = rounds.Slack
	if !twin {
		h.TTL, h.Bound = c.subject.TTL, c.subject.MaxBlocking
	}
	c.count.history = h
	if c.count.violations, err = history.Check(h); err != nil {
		return fmt.Errorf("process: %w", err)
	}
	return nil
}
