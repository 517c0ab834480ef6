package fairness_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/child"
)

// field is the processes that compete for a lock, and their turns.
type field struct {
	*testing.T
	order   order
	live    []*child.Process[turn]
	reading sync.WaitGroup
	started int // so many processes so far
	waiters int // so many now

	mu    sync.Mutex
	turns []turn
	errs  []error
}

// enter starts a process of so many waiters and returns when it is about to
// begin. What it says is put down from then on.
func (f *field) enter(waiters int) {
	f.Helper()
	p, err := child.Start[turn](child.Command{
		Name: "waiters", Argv: []string{os.Args[0]}, Env: []string{envRole + "=waiters"},
	})
	require.NoError(f, err)
	f.Cleanup(p.Kill)
	o := f.order
	o.Waiters, o.Process = waiters, fmt.Sprintf("process %d", f.started)
	f.started++
	f.waiters += waiters
	require.NoError(f, p.Send(o))
	ready, err := p.Next(f.Context())
	require.NoError(f, err)
	require.True(f, ready.Ready)
	f.live = append(f.live, p)
	f.reading.Go(func() { f.read(p) })
}

func (f *field) read(p *child.Process[turn]) {
	for {
		said, err := p.Next(f.Context())
		if err != nil || said.Over {
			return // killed, or told to stop
		}
		f.mu.Lock()
		f.turns = append(f.turns, said)
		if said.Failure != "" {
			f.errs = append(f.errs, fmt.Errorf("%s: %s", said.Waiter, said.Failure))
		}
		f.mu.Unlock()
	}
}

// replace kills a process, and lets another one of that size take its place.
func (f *field) replace(place, waiters int) {
	f.Helper()
	f.live[place].Kill()
	f.live = slices.Delete(f.live, place, place+1)
	f.waiters -= waiters
	f.enter(waiters)
}

// stop ends the processes and returns what they have said.
func (f *field) stop() *score {
	f.Helper()
	for _, p := range f.live {
		require.NoError(f, p.Send(order{Stop: true}))
	}
	f.reading.Wait()
	for _, p := range f.live {
		p.End(f.Context())
	}
	require.Empty(f, f.errs)
	return newScore(f.turns, f.waiters)
}

// compete runs waiters in processes of such sizes.
func compete(t *testing.T, o order, sizes []int, lasts time.Duration) *score {
	t.Helper()
	f := &field{T: t, order: o}
	for _, waiters := range sizes {
		f.enter(waiters)
	}
	time.Sleep(lasts)
	return f.stop()
}
