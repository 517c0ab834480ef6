package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// tournament measures how a lock passes from one waiter to the next, over the link. The
// sides take turns in rounds with one round trip and with [limit].
type tournament struct {
	name    string
	waiters []int
	sides   []contender
	// request is a round trip that does what the simplest lock needs from the server.
	request     opener
	requestName string
	unit        string // the unit of sent
	sent        func(*counter) *atomic.Int64
}

// contender is a library, used by the waiters of one process, or with one process for
// each waiter.
type contender struct {
	name      string
	open      library
	processes processes
	sent      bound // per acquisition
	ours      bool  // the targets apply
}

type processes int

const (
	oneProcess processes = iota
	oneEach
)

// A wait that began before the block, or ends after it, is counted in part: values that
// print as 1.0 and 2.0 meet the targets.
const (
	oneCommand  = 1.05
	twoCommands = 2.05
)

const (
	held      = time.Millisecond
	elsewhere = 3 * time.Millisecond
)

func handoverMeasurements() []measurement {
	ping := func(_ context.Context, c *client) op {
		client := c.redis()
		return func(ctx context.Context, _ int) error { return client.Ping(ctx).Err() }
	}
	return []measurement{
		tournament{
			name: "Redis lock", waiters: []int{8, 32, 128}, request: ping, requestName: "a PING",
			unit: "commands", sent: func(c *counter) *atomic.Int64 { return &c.commands },
			sides: []contender{
				{name: "one process", open: of(openRedistoken, leased), sent: atMost(oneCommand), ours: true},
				{name: "a process each", open: of(openRedistoken, leased), processes: oneEach, sent: atMost(twoCommands), ours: true},
				{name: "redislock", open: openRedislock},
				{name: "redsync", open: openRedsync},
				{name: "rueidislock, a process each", open: openRueidislock, processes: oneEach},
			},
		},
		tournament{
			name: "PostgreSQL lock", waiters: []int{8}, request: oneUpdate, requestName: "a durable update",
			unit: "packets", sent: func(c *counter) *atomic.Int64 { return &c.packets },
			sides: []contender{
				{name: "pgtoken, one process", open: of(openPgtoken, leased)},
				{name: "pgtoken, a process each", open: of(openPgtoken, leased), processes: oneEach},
			},
		},
	}
}

// limit returns a lock in memory whose holder sends one request before it begins. No
// lock on a server passes from one waiter to the next in less.
func limit(send op) func(ctx context.Context, waiter int) (unlock, error) {
	lock := channel()
	return func(ctx context.Context, waiter int) (unlock, error) {
		release, err := lock(ctx, waiter)
		if err != nil {
			return nil, err
		}
		if err := send(ctx, 0); err != nil {
			return nil, errors.Join(err, release(ctx))
		}
		return release, nil
	}
}

func (t tournament) measure(ctx context.Context, e *env) ([]row, error) {
	var counts []string
	for _, n := range t.waiters {
		counts = append(counts, fmt.Sprint(n))
	}
	name := func(what string) string {
		return fmt.Sprintf("%s, %s waiters: %s", t.name, strings.Join(counts, " · "), what)
	}
	limit := "a channel, and " + t.requestName
	noise := row{name: name("wait p99, a/a"), baseline: limit}
	fair := row{name: name("Jain's fairness, " + limit)}
	rows := make([]row, 4*len(t.sides))
	for i, s := range t.sides {
		rows[4*i] = row{name: name("hand-over p50, " + s.name), baseline: t.requestName}
		rows[4*i+1] = row{name: name("wait p99, " + s.name), baseline: limit}
		rows[4*i+2] = row{name: name(t.unit + " for each acquisition, " + s.name)}
		rows[4*i+3] = row{name: name("Jain's fairness, " + s.name)}
	}
	for _, n := range t.waiters {
		var rounds []match
		if err := opening(func() { rounds = t.rounds(ctx, e, n) }); err != nil {
			return nil, fmt.Errorf("%s, %d waiters: %w", t.name, n, err)
		}
		add := func(r *row, target bound, of func(match) float64) {
			var all []float64
			for _, round := range rounds {
				all = append(all, of(round))
			}
			r.cells[overLink] = append(r.cells[overLink], middle(all, target))
		}
		add(&noise, bound{}, func(m match) float64 { return m.again.wait / m.floor.wait })
		add(&fair, bound{}, func(m match) float64 { return m.floor.fairness })
		for i, s := range t.sides {
			var handOver, wait, fairness bound
			if s.ours {
				handOver, wait, fairness = atMost(1.3), atMost(1.3), atLeast(0.99)
			}
			add(&rows[4*i], handOver, func(m match) float64 { return m.sides[i].handOver / m.trip })
			add(&rows[4*i+1], wait, func(m match) float64 { return 2 * m.sides[i].wait / (m.floor.wait + m.again.wait) })
			add(&rows[4*i+2], s.sent, func(m match) float64 { return m.sides[i].sent })
			add(&rows[4*i+3], fairness, func(m match) float64 { return m.sides[i].fairness })
		}
	}
	return append([]row{noise, fair}, rows...), nil
}

// match is one round.
type match struct {
	trip         float64 // seconds
	floor, again competed
	sides        []competed
}

// rounds runs blocks that are long enough for each waiter to have its turn a few times.
func (t tournament) rounds(ctx context.Context, e *env, waiters int) (rounds []match) {
	block, n := 200*time.Millisecond+time.Duration(waiters)*5*time.Millisecond, 1
	if !e.pace.quick {
		block, n = 2*block, 5
	}
	like := crowd{waiters: waiters, hold: held, think: elsewhere}
	var all clients
	defer all.close()
	request := t.request(ctx, all.add(client{env: e, route: linked, workers: 1, sent: new(counter)}))
	alone := func() competed {
		like.lock, like.sent = limit(request), nil
		return must(like.run(ctx, block))
	}
	entries := make([]entry, len(t.sides))
	for i, s := range t.sides {
		checkOf(s.name, opening(func() { entries[i] = s.start(ctx, e, waiters, &all) }))
	}
	compete := func(i int, d time.Duration) competed {
		// A resource of its own: what a library leaves at the end of a block must not
		// delay the next block.
		resource := fmt.Sprintf("branch/%d", resources.Add(1))
		programs := entries[i].programs
		like.lock = func(ctx context.Context, waiter int) (unlock, error) {
			return programs[waiter%len(programs)].wait(ctx, resource)
		}
		like.sent = t.sent(entries[i].sent).Load
		r, err := like.run(ctx, d)
		checkOf(t.sides[i].name, err)
		return r
	}
	for i := range entries { // connections, subscriptions and scripts
		compete(i, block/4)
	}
	for round := range n {
		m := match{sides: make([]competed, len(t.sides)), floor: alone()}
		m.trip = must(roundTrip(ctx, block/2, held, func(ctx context.Context) error { return request(ctx, 0) }))
		for _, i := range turns(len(t.sides)+1, round)[1:] {
			i--
			m.sides[i] = compete(i, block)
		}
		m.again = alone()
		rounds = append(rounds, m)
	}
	return rounds
}

// resources numbers the resources.
var resources atomic.Int64

// entry is a contender's locks in each of its programs, with one shared counter.
type entry struct {
	programs []locking
	sent     *counter
}

// start opens the contender's locks.
func (s contender) start(ctx context.Context, e *env, waiters int, all *clients) entry {
	programs, workers := 1, waiters
	if s.processes == oneEach {
		programs, workers = waiters, 1
	}
	opened := entry{sent: new(counter)}
	for range programs {
		opened.programs = append(opened.programs, s.open(ctx, all.add(client{env: e, route: linked, workers: workers, sent: opened.sent})))
	}
	return opened
}
