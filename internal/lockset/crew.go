package lockset

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/child"
)

// patience bounds what a worker needs for its first word, and for its last.
const patience = 2 * time.Minute

// member is one worker's process, as the parent has it.
type member struct {
	*child.Process[event]
	ready chan struct{} // closed when it is
	done  chan struct{} // closed when it says no more
	err   error         // why, if it was not done; to be read after done
}

// crew are the processes of one run.
type crew struct {
	members []*member
	tally   tally
	ears    sync.WaitGroup
}

// hire starts a worker.
func (c *crew) hire(argv, env []string, s setup) (*member, error) {
	p, err := child.Start[event](child.Command{Name: s.Name, Argv: argv, Env: env})
	if err != nil {
		return nil, err
	}
	m := &member{Process: p, ready: make(chan struct{}), done: make(chan struct{})}
	c.members = append(c.members, m)
	c.ears.Go(func() { c.listen(m) })
	return m, m.Send(s)
}

// listen takes all that m says. It ends with m's process.
func (c *crew) listen(m *member) {
	defer close(m.done)
	for {
		e, err := m.Next(context.Background())
		if err != nil {
			m.err = err
			return
		}
		switch e.Kind {
		case ready:
			close(m.ready)
		case done:
			return
		default:
			c.tally.hear(e)
		}
	}
}

// begin lets all begin at once, when they are ready.
func (c *crew) begin(ctx context.Context) error {
	for _, m := range c.members {
		if err := await(ctx, m, m.ready); err != nil {
			return err
		}
	}
	return c.tell(begin)
}

// quit waits until all have ended what they had begun.
func (c *crew) quit(ctx context.Context) error {
	err := c.tell(quit)
	for _, m := range c.members {
		err = errors.Join(err, await(ctx, m, m.done))
	}
	return err
}

func (c *crew) tell(o order) error {
	for _, m := range c.members {
		if err := m.Send(o); err != nil {
			return err
		}
	}
	return nil
}

func await(ctx context.Context, m *member, what <-chan struct{}) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-what:
	case <-m.done: // too early, if not asked for
		return m.err
	case <-timer.C:
		return fmt.Errorf("lockset: worker %d says nothing", m.Pid())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// dismiss ends all processes, whatever they do.
func (c *crew) dismiss(ctx context.Context) {
	var all sync.WaitGroup
	for _, m := range c.members {
		all.Go(func() { m.End(ctx) })
	}
	all.Wait()
	c.ears.Wait()
}
