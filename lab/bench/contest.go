package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"
)

// contest compares contenders with a baseline. The baseline takes part twice, the second
// time as its own twin. In each setting all sides run a block in each round, in random
// order. A round's ratio is the figure of a side divided by the mean of the baseline's and
// the twin's. The ratio a/a is the twin's divided by the baseline's. The result is the
// median over the rounds.
type contest struct {
	name     string
	server   serverKind
	settings []setting
	baseline contender
	others   []contender
	prepared bool // a block prepares what it measures, so there is no warm-up
}

// contender is one way to do the work of a contest: ours, another library's, or the raw
// commands.
type contender struct {
	name string
	open opener
}

type (
	// opener prepares a contender, and setup an operation in one program. They may use must
	// and check.
	opener func(ctx context.Context, c *client) block
	setup  func(ctx context.Context, c *client) op
	// block measures for about d.
	block   func(ctx context.Context, d time.Duration) (reading, error)
	reading map[column]float64
	// op is one operation. worker is the number of the goroutine that runs it, from 0.
	// Concurrent calls have different workers.
	op func(ctx context.Context, worker int) error
)

// setting is the number of workers, the clients that they share, the route to the server,
// the length of a block, and the columns that are filled.
type setting struct {
	workers, clients int
	via              route
	block            time.Duration
	fills            []column
}

const usual = 80 * time.Millisecond

var (
	linked1  = setting{1, 1, linked, usual, []column{link}}
	linked16 = setting{16, 1, linked, usual, []column{link}}
	direct1  = setting{1, 1, direct, usual, []column{serverCPU, packets, allocations}}

	every = []setting{
		linked1, linked16, direct1, {16, 1, direct, usual, []column{serverCPU}},
		{16, 16, direct, usual, []column{throughput}}, {64, 64, direct, usual, []column{throughput}},
	}
)

// measure returns a row for each setting and contender.
func (c contest) measure(ctx context.Context, e *env) (rows []row, err error) {
	defer rescue(&err)
	sides := slices.Concat([]contender{c.baseline}, c.others, []contender{c.baseline})
	twin := len(sides) - 1
	for _, s := range c.settings {
		rounds := c.rounds(ctx, e, s, sides)
		for i, side := range sides[:twin] {
			r := row{c.name, side.name, c.baseline.name, s.workers, map[column]spread{}, map[column]spread{}, reading{}}
			for _, col := range s.fills {
				if _, has := rounds[0][i][col]; !has {
					continue // a baseline of another kind
				}
				r.measured[col] = over(rounds, func(r []reading) float64 { return r[i][col] }).median
				if col.counted {
					continue
				}
				r.aa[col] = over(rounds, func(r []reading) float64 { return r[twin][col] / r[0][col] })
				if i > 0 {
					r.ratios[col] = over(rounds, func(r []reading) float64 { return 2 * r[i][col] / (r[0][col] + r[twin][col]) })
				}
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// over returns the median of a value over the rounds.
func over(rounds [][]reading, of func(sides []reading) float64) spread {
	all := make([]float64, len(rounds))
	for i, r := range rounds {
		if all[i] = of(r); math.IsNaN(all[i]) || math.IsInf(all[i], 0) {
			check(errors.New("no ratio: it would be to 0"))
		}
	}
	slices.Sort(all)
	return spread{quantile(all, 0.25), quantile(all, 0.5), quantile(all, 0.75)}
}

// rounds returns the readings of the sides in each round. There are rounds for the time of
// the budget, and at least the fewest. Before them each side runs once, to open its
// connections, prepare its statements and fill its caches.
func (c contest) rounds(ctx context.Context, e *env, s setting, sides []contender) (rounds [][]reading) {
	budget, fewest, length := 8*time.Second, 5, s.block
	if e.quick {
		budget, fewest, length = time.Second, 1, s.block/2
	}
	blocks := make([]func(d time.Duration) reading, len(sides))
	for i, side := range sides {
		client := &client{setting: s, env: e, server: e.started(ctx, c.server)}
		defer client.close()
		run := side.open(ctx, client)
		blocks[i] = func(d time.Duration) reading {
			read, err := run(ctx, d)
			if err != nil {
				check(fmt.Errorf("%s, %s, %d workers: %w", c.name, side.name, s.workers, err))
			}
			return read
		}
		if !c.prepared {
			blocks[i](length / 2)
		}
	}
	for start := time.Now(); len(rounds) < fewest || time.Since(start) < budget; {
		round := make([]reading, len(sides))
		for _, i := range rand.Perm(len(sides)) {
			round[i] = blocks[i](length)
		}
		rounds = append(rounds, round)
	}
	return rounds
}

// each measures an operation that the workers repeat. It is prepared for each client.
func each(prepare setup) opener {
	return func(ctx context.Context, c *client) block {
		ops := make([]op, c.clients)
		for i := range ops {
			ops[i] = prepare(ctx, c)
		}
		return func(ctx context.Context, d time.Duration) (reading, error) { return c.repeat(ctx, d, ops) }
	}
}

// repeat runs the operations by all workers for d, and at least once by each. The first
// error ends the work of all workers.
func (c *client) repeat(ctx context.Context, d time.Duration, ops []op) (reading, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cpu := c.server.cpu()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	sent, start := c.sent.Load(), time.Now()
	times := make([][]float64, c.workers)
	var group sync.WaitGroup
	for worker := range times {
		group.Go(func() {
			own := make([]float64, 0, 256)
			for begin := start; len(own) == 0 || begin.Sub(start) < d; {
				if err := ops[worker%len(ops)](ctx, worker); err != nil {
					cancel(err)
					return
				}
				end := time.Now()
				own = append(own, end.Sub(begin).Seconds())
				begin = end
			}
			times[worker] = own
		})
	}
	group.Wait()
	took := time.Since(start).Seconds()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	sent = c.sent.Load() - sent
	runtime.ReadMemStats(&after)
	cpu = c.server.cpu() - cpu
	all := slices.Concat(times...)
	n := float64(len(all))
	return reading{
		link: median(all) * 1e6, throughput: n / took, serverCPU: cpu.Seconds() * 1e6 / n,
		packets: float64(sent) / n, allocations: float64(after.Mallocs-before.Mallocs) / n,
	}, nil
}

// failure is the panic of check and must, which measure returns as an error. Operations
// return their errors themselves.
type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func rescue(err *error) {
	switch over := recover().(type) {
	case nil:
	case failure:
		*err = over.error
	default:
		panic(over)
	}
}
