package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// op is one operation. worker is the number of the goroutine that runs it, from 0.
// Concurrent calls have different workers.
type op func(ctx context.Context, worker int) error

// subject is one measured operation: ours, a peer's, or the raw one.
type subject struct {
	name    string
	open    opener
	targets targets
}

// opener prepares an operation in a program that uses the servers through c. It must be
// called inside [opening].
type opener func(ctx context.Context, c *client) op

// targets are the targets of the cells, one for each value.
type targets map[column][]bound

func (t targets) of(c column, i int) bound {
	if i < len(t[c]) {
		return t[c][i]
	}
	return bound{}
}

// contest compares subjects with one baseline. In each setting the sides take turns in
// rounds:
//
//	raw  ours  peer  …  raw      the next round: raw  …  peer  ours  raw
//
// A round's ratio is a side's value to the mean of the two baseline blocks around it.
// The ratio a/a is one of these two divided by the other. The table shows the medians
// over the rounds.
type contest struct {
	name     string // precedes the names of the rows
	baseline subject
	others   []subject
	settings []setting
	// server is the server whose CPU is measured. Zero: none.
	server serverKind
}

// setting is the route to the servers, and the number of clients and workers.
type setting struct {
	route            route
	workers, clients int
}

var (
	linked1   = setting{linked, 1, 1}
	linked16  = setting{linked, 16, 1}
	direct1   = setting{direct, 1, 1}
	direct16  = setting{direct, 16, 1}
	saturate  = setting{direct, 16, 16}
	saturate4 = setting{direct, mostWorkers, mostWorkers}

	alone = []setting{linked1, direct1}
	every = []setting{linked1, linked16, direct1, direct16, saturate, saturate4}
)

// mostWorkers is the greatest number of concurrent workers. Each has a resource of its
// own.
const mostWorkers = 64

// reading is the measurement of one block, for each operation.
type reading struct {
	median  float64 // seconds
	rate    float64 // operations per second
	cpu     float64 // seconds, of the server
	packets float64
	allocs  float64
}

// quantity is a value of a reading that a column shows, as a ratio or absolute.
type quantity struct {
	column   column
	of       func(reading) float64
	absolute bool
}

func (s setting) quantities(server serverKind) (all []quantity) {
	switch {
	case s.clients > 1:
		return []quantity{{throughput, func(r reading) float64 { return r.rate }, false}}
	case s.route == linked:
		return []quantity{{overLink, func(r reading) float64 { return r.median }, false}}
	}
	all = []quantity{{overLoopback, func(r reading) float64 { return r.median }, false}}
	if server != noServer {
		all = append(all, quantity{serverCPU, func(r reading) float64 { return r.cpu }, false})
	}
	if s.workers == 1 {
		all = append(all, quantity{packets, func(r reading) float64 { return r.packets }, true},
			quantity{allocations, func(r reading) float64 { return r.allocs }, true})
	}
	return all
}

// side is an opened subject.
type side struct {
	name string
	do   op
	sent *counter
}

func (c contest) measure(ctx context.Context, e *env) ([]row, error) {
	rows := []row{{name: c.name + "a/a", baseline: c.baseline.name}}
	for _, s := range c.others {
		rows = append(rows, row{name: c.name + s.name, baseline: c.baseline.name})
	}
	for _, s := range c.settings {
		if err := opening(func() { c.fill(ctx, e, s, rows) }); err != nil {
			return nil, fmt.Errorf("%s%w", c.name, err)
		}
	}
	return rows, nil
}

// fill measures in one setting and adds its values to the rows.
func (c contest) fill(ctx context.Context, e *env, s setting, rows []row) {
	var all clients
	defer all.close()
	sides := c.open(ctx, e, s, &all)
	rounds := c.rounds(ctx, e, s, sides)
	for i, subject := range append([]subject{c.baseline}, c.others...) {
		for _, q := range s.quantities(c.server) {
			var all []float64
			for _, r := range rounds {
				x, err := r.value(i, q)
				checkOf(subject.name, err)
				all = append(all, x)
			}
			cell := &rows[i].cells[q.column]
			v := middle(all, subject.targets.of(q.column, len(*cell)))
			v.noise = i == 0 && !q.absolute
			*cell = append(*cell, v)
		}
	}
}

// checkOf is check for the subject name.
func checkOf(name string, err error) {
	if err != nil {
		check(fmt.Errorf("%s: %w", name, err))
	}
}

// open opens each subject once for each client.
func (c contest) open(ctx context.Context, e *env, s setting, all *clients) (sides []side) {
	for _, subject := range append([]subject{c.baseline}, c.others...) {
		sd := side{name: subject.name, sent: new(counter)}
		ops := make([]op, s.clients)
		for i := range ops {
			client := all.add(client{env: e, route: s.route, workers: s.workers / s.clients, sent: sd.sent})
			checkOf("prepare "+subject.name, opening(func() { ops[i] = subject.open(ctx, client) }))
		}
		sd.do = func(ctx context.Context, worker int) error { return ops[worker%len(ops)](ctx, worker) }
		sides = append(sides, sd)
	}
	return sides
}

// roundOf has the readings of one round: of each side, the baseline first, and of the
// baseline again.
type roundOf struct {
	sides []reading
	again reading
}

// value returns the value of side i. Side 0 is the baseline.
func (r roundOf) value(i int, q quantity) (float64, error) {
	if q.absolute {
		return q.of(r.sides[i]), nil
	}
	before, after := q.of(r.sides[0]), q.of(r.again)
	switch {
	case before <= 0 || after <= 0:
		return 0, errors.New("the baseline's value is 0, so there is no ratio")
	case i == 0:
		return after / before, nil
	default:
		return q.of(r.sides[i]) / ((before + after) / 2), nil
	}
}

// rounds runs at least three rounds. Before them each side runs once, to open its
// connections, prepare its statements and fill its caches.
func (c contest) rounds(ctx context.Context, e *env, s setting, sides []side) (rounds []roundOf) {
	meter := e.cpu(c.server)
	block := func(sd side, d time.Duration) reading {
		r, err := sd.block(ctx, s.workers, d, meter)
		checkOf(sd.name, err)
		return r
	}
	for _, sd := range sides {
		block(sd, e.pace.block/2)
	}
	const fewest = 3
	for start := time.Now(); len(rounds) < fewest || time.Since(start) < e.pace.budget; {
		r := roundOf{sides: make([]reading, len(sides))}
		order := append(turns(len(sides), len(rounds)), 0)
		for i, at := range order {
			read := block(sides[at], e.pace.block)
			if i == len(order)-1 {
				r.again = read
			} else {
				r.sides[at] = read
			}
		}
		rounds = append(rounds, r)
	}
	return rounds
}

// turns returns the order of a round: the baseline and then the others, reversed in every
// second round, so that no side always follows the same side.
func turns(sides, round int) []int {
	order := []int{0}
	for i := 1; i < sides; i++ {
		if round%2 == 1 {
			order = append(order, sides-i)
		} else {
			order = append(order, i)
		}
	}
	return order
}

// block runs the operation by all workers for d, and at least once by each. The first
// error ends the work of all workers.
func (sd side) block(ctx context.Context, workers int, d time.Duration, cpu func(context.Context) time.Duration) (reading, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cpuBefore := cpu(ctx)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	sent, start := sd.sent.packets.Load(), time.Now()
	times := make([][]float64, workers)
	var group sync.WaitGroup
	for worker := range times {
		group.Go(func() {
			own := make([]float64, 0, 256)
			for begin := start; len(own) == 0 || begin.Sub(start) < d; {
				if err := sd.do(ctx, worker); err != nil {
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
		return reading{}, err
	}
	packets := sd.sent.packets.Load() - sent
	runtime.ReadMemStats(&after)
	cpuAfter := cpu(ctx)
	all := slices.Sorted(slices.Values(slices.Concat(times...)))
	n := float64(len(all))
	return reading{
		median: quantile(all, 0.5), rate: n / took, cpu: (cpuAfter - cpuBefore).Seconds() / n,
		packets: float64(packets) / n, allocs: float64(after.Mallocs-before.Mallocs) / n,
	}, nil
}
