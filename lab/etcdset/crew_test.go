package etcdset_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	randv2 "math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/subprocess"
)

// config is the configuration of one run.
//
// A pause stops a random, non-empty part of the processes with SIGSTOP, after a time
// between 0 and 2·Every, and lasts between 0 and 2·Every, as in the original.
type config struct {
	Worker subprocess.Command `json:"-"` // starts a process that calls serve

	Redis    string // URL
	Prefix   string // of all keys
	Postgres string // URL
	Schema   string // has the marks, as migrated; the table of the sets is made in it

	Ways      []way
	Processes int
	TTL       time.Duration
	Work      time.Duration // an addition works for less than this
	Every     time.Duration
	Length    time.Duration // at least
	Idle      time.Duration // of sqlguard.Guard; zero is the guard's own
	Seed      uint64        // of pauses and work; the interleaving between them is not repeatable
}

var errConfig = errors.New("etcdset: a required field of the configuration is missing")

// hang bounds the wait for a worker's first report, and for its end.
const hang = 2 * time.Minute

// run runs the experiment once. Its figures come from the final sets and from the answers
// that the processes got. If ctx ends early, run returns an error.
func (c config) run(ctx context.Context) (*report, error) {
	if c.Every <= 0 || c.Processes < 1 {
		return nil, errConfig
	}
	r := &report{Runs: 1}
	var tally *tally
	counts, err := c.play(ctx, func(workers *crew) error {
		tally = &workers.tally
		for range c.Processes {
			if _, err := workers.startWorker(ctx, func(*setup) {}); err != nil {
				return err
			}
		}
		for _, m := range workers.members { // all workers begin at the same time
			if err := m.Send(struct{}{}); err != nil {
				return err
			}
		}
		if err := workers.pauses(ctx, r); err != nil {
			return err
		}
		return workers.finishAll(ctx)
	})
	if err != nil {
		return nil, err
	}
	r.Counts, r.Troubles, r.Trouble = counts, tally.troubles, tally.trouble
	return r, nil
}

// play makes an empty set for each way, calls do with a crew, and returns the counts of
// each way. All processes have ended when it returns. Their data on the servers stays.
func (c config) play(ctx context.Context, do func(*crew) error) (counts []count, err error) {
	pool, err := connectPostgres(ctx, c.Postgres, c.Schema)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, createSQL); err != nil {
		return nil, fmt.Errorf("etcdset: sets: %w", err)
	}
	workers := &crew{config: c, run: strings.ToLower(rand.Text()[:8])}
	for _, way := range c.Ways {
		if _, err := pool.Exec(ctx, insertSQL, setName(workers.run, way)); err != nil {
			return nil, fmt.Errorf("etcdset: sets: %w", err)
		}
	}
	defer workers.endAll(ctx)
	if err := do(workers); err != nil {
		return nil, err
	}
	for _, way := range c.Ways {
		s, err := readSet(ctx, pool, setName(workers.run, way))
		if err != nil {
			return nil, err
		}
		counts = append(counts, workers.tally.count(way, s.members))
	}
	return counts, nil
}

// crew is the processes of one run.
type crew struct {
	config
	run     string
	members []*member
	tally   tally
	ears    sync.WaitGroup
}

// member is a worker's process.
type member struct {
	*subprocess.Process[event]
	done chan struct{} // closed when the process has ended
	err  error         // why it ended early; set before done
}

// startWorker starts a worker, and returns it when it is ready.
func (c *crew) startWorker(ctx context.Context, change func(*setup)) (*member, error) {
	s := setup{config: c.config, Run: c.run, Index: len(c.members) + 1}
	change(&s)
	c.Worker.Name = fmt.Sprintf("worker-%d", s.Index)
	ctx, cancel := context.WithTimeoutCause(ctx, hang, fmt.Errorf("etcdset: %s is not ready", c.Worker.Name))
	defer cancel()
	p, _, err := subprocess.Open[event](ctx, c.Worker, s)
	if err != nil {
		return nil, err
	}
	m := &member{Process: p, done: make(chan struct{})}
	c.members = append(c.members, m)
	c.ears.Go(func() {
		defer close(m.done)
		m.err = m.Listen(c.tally.record)
	})
	return m, nil
}

// finishAll waits until all workers have ended the additions that they had begun.
func (c *crew) finishAll(ctx context.Context) (err error) {
	for _, m := range c.members {
		m.CloseInput()
	}
	for _, m := range c.members {
		err = errors.Join(err, m.finish(ctx))
	}
	return err
}

// finish waits for the end of the process.
func (m *member) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, hang, fmt.Errorf("etcdset: worker %d does not end", m.Pid()))
	defer cancel()
	select {
	case <-m.done:
		return m.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// resume continues a stopped process.
func (m *member) resume(ctx context.Context) error { return errors.Join(m.Continue(), m.finish(ctx)) }

// endAll ends all processes, whatever they do.
func (c *crew) endAll(ctx context.Context) {
	var all sync.WaitGroup
	for _, m := range c.members {
		all.Go(func() { m.End(ctx) })
	}
	all.Wait()
	c.ears.Wait()
}

// pauses stops random members for c.Length, and longer until one was stopped and every
// way has acknowledged an addition, which may take longer on a busy machine. When it
// returns, no process is stopped.
func (c *crew) pauses(ctx context.Context, r *report) error {
	random := randv2.New(randv2.NewPCG(c.Seed, 0))
	began := time.Now()
	timed, over := context.WithTimeout(ctx, c.Length)
	defer over()
	enough := func() bool {
		return timed.Err() != nil && (r.Pauses > 0 && c.tally.atWork(c.Ways) || time.Since(began) > c.Length+hang)
	}
	for ctx.Err() == nil && !enough() {
		within := timed
		if timed.Err() != nil {
			within = ctx
		}
		if sleep(within, c.some(random)) != nil {
			continue
		}
		if err := c.pause(within, random, r); err != nil {
			return err
		}
	}
	r.Length = time.Since(began)
	return nil
}

// some returns a time between 0 and twice the mean.
func (c *crew) some(random *randv2.Rand) time.Duration {
	return time.Duration(random.Int64N(int64(2 * c.Every)))
}

// pause stops a random, non-empty part of the crew for some time. It is no
// subprocess.Round, as duel is: the original's pauses have no successor to wait for.
func (c *crew) pause(ctx context.Context, random *randv2.Rand, r *report) error {
	var chosen []*subprocess.Process[event]
	for _, i := range random.Perm(len(c.members))[:1+random.IntN(len(c.members))] {
		chosen = append(chosen, c.members[i].Process)
	}
	length, took := c.some(random), time.Duration(0)
	err := subprocess.WhileStopped(context.WithoutCancel(ctx), func() {
		began := time.Now()
		_ = sleep(ctx, length) // cut short at the end of the run
		took = time.Since(began)
	}, chosen...)
	if err != nil {
		return err
	}
	r.Pauses++
	r.Paused += took
	if took > c.TTL {
		r.Longer++
	}
	return nil
}
