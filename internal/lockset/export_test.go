package lockset

import (
	"context"
	"errors"
	"time"
)

// Told is what a worker was told, in planted outcomes.
type Told = answer

// Step is where a worker of a Duel stops itself.
type Step = step

// The answers there are, and none at all.
const (
	Acknowledged = acknowledged
	Refused      = refused
	Failed       = failed
	Unknown      = unknown
	Unanswered   = answer("")
)

// Counted returns what is counted where the worker of LockOnly was told this of
// its values, in this order, and the set ended with these members.
func Counted(told []Told, members ...int64) Count {
	var t tally
	for i, a := range told {
		t.hear(event{Kind: begun, Way: LockOnly, Value: int64(i + 1)})
		if a != Unanswered {
			t.hear(event{Kind: answered, Way: LockOnly, Value: int64(i + 1), Answer: a})
		}
	}
	return t.count(LockOnly, members)
}

// Outcome is what a worker reports of an error.
func Outcome(err error) Told { return outcome(err) }

// The steps there are.
const (
	AtWork  = atWork
	AtWrite = atWrite
)

// Duel lets one process begin an addition and stop itself at that step, and then
// another. If the other does not stop it is done before the first wakes up, and
// else wakes up when the first is done.
func Duel(ctx context.Context, c Config, one, other step) (Count, error) {
	return c.stage(ctx, func(duel *crew) error {
		first, err := c.enter(ctx, duel, one)
		if err == nil {
			err = first.Stands(ctx)
		}
		if err != nil {
			return err
		}
		second, err := c.enter(ctx, duel, other)
		if err != nil {
			return err
		}
		if other == "" {
			return errors.Join(await(ctx, second, second.done), wake(ctx, first))
		}
		return errors.Join(second.Stands(ctx), wake(ctx, first), wake(ctx, second))
	})
}

// Leave stops the only worker while it works, which takes it longer than anybody
// waits, until its lease is over.
func Leave(ctx context.Context, c Config) (Count, error) {
	return c.stage(ctx, func(alone *crew) error {
		m, err := c.busy(ctx, alone)
		if err != nil {
			return err
		}
		return errors.Join(m.Stop(), m.Stands(ctx), sleep(ctx, 2*c.TTL), wake(ctx, m))
	})
}

// Quit has the only worker quit while it works.
func Quit(ctx context.Context, c Config) (Count, error) {
	return c.stage(ctx, func(alone *crew) error {
		if _, err := c.busy(ctx, alone); err != nil {
			return err
		}
		return alone.quit(ctx)
	})
}

// busy returns a worker that has begun.
func (c Config) busy(ctx context.Context, alone *crew) (*member, error) {
	m, err := c.enter(ctx, alone, "")
	for err == nil && alone.tally.count(c.Ways[0], nil).Begun == 0 {
		err = sleep(ctx, time.Millisecond)
	}
	return m, err
}

// stage counts what came of the first of c's ways in a play that is not drawn.
func (c Config) stage(ctx context.Context, play func(*crew) error) (Count, error) {
	pool, err := connectPostgres(ctx, c.Postgres, c.Schema)
	if err != nil {
		return Count{}, err
	}
	defer pool.Close()
	way := c.Ways[0]
	if err := create(ctx, pool, "stage", c.Ways); err != nil {
		return Count{}, err
	}
	var actors crew
	defer func() { actors.dismiss(ctx) }()
	if err := play(&actors); err != nil {
		return Count{}, err
	}
	s, err := readSet(ctx, pool, setName("stage", way))
	return actors.tally.count(way, s.members), err
}

func (c Config) enter(ctx context.Context, actors *crew, stand step) (*member, error) {
	s := c.setup("stage", len(actors.members))
	s.Additions, s.Stand = 1, stand
	m, err := actors.hire(c.Argv, c.Env, s)
	if err != nil {
		return nil, err
	}
	if err := await(ctx, m, m.ready); err != nil {
		return nil, err
	}
	return m, m.Send(begin)
}

func wake(ctx context.Context, m *member) error {
	return errors.Join(m.Continue(), await(ctx, m, m.done))
}

// ExecPlain runs a statement without a guard.
func ExecPlain(ctx context.Context, db executor) error {
	_, err := plain{db}.Exec(ctx, "statement")
	return err
}
