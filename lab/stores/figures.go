package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fencepost/fencepost/internal/test/slowlink"
)

// How much is measured. The test measures less.
var (
	pairs   = 100              // an acquisition and a release of each side
	waiters = 32               // a crowd
	block   = 2 * time.Second  // the least of a block of hand-overs
	fewest  = 6                // hand-overs in a block
	repeats = 2                // blocks and joins, and half of the deaths
	settled = 3 * time.Second  // in which a waiter has seen the holder
	ttl     = 10 * time.Second // of a holder that dies. Consul has no shorter one
)

const (
	holding = 20 * time.Millisecond // in which the last holder takes its place in the queue
	long    = time.Minute           // a TTL that does not end
)

// row has the cells of a side, by the head of the column, or the ratios of two sides.
type row struct {
	name  string
	cells map[string]string
}

// The heads of the columns. A hand-over lasts from the call of the release until the next
// process has the lock.
var (
	operations = []string{"acquire", "renew", "release"}
	handOver   = []string{"1 waits", "crowd wait", "crowd wait in one process"}
	death      = []string{"a waiter", "a newcomer"}
)

const joins, swapped = ": joins", ": swaps"

// env is a started engine.
type env struct {
	closers
	server
	sides []side
	rows  []row
	link  string // the address of a relay to the server
	swaps swaps  // of all processes
}

// process has connections of its own, as a process of a user has.
type process struct {
	closers
	*env
	addr string // of a relay
	ttl  time.Duration
}

// measure returns a row for each side, and one of ratios.
func (g engine) measure(ctx context.Context) (rows []row, err error) {
	defer rescue(&err)
	e := &env{sides: g.sides}
	defer e.close()
	e.server = g.start(e)
	e.link = e.newLink(&e.closers)
	for _, name := range []string{g.sides[0].name, g.sides[len(g.sides)-1].name, "ratio"}[:2*len(g.sides)-1] {
		e.rows = append(e.rows, row{name, map[string]string{}})
	}
	e.operations(ctx)
	for i, crowd := range [][2]int{{1, 2}, {waiters, waiters + 1}, {waiters, 1}} {
		e.handOvers(ctx, handOver[i], crowd[0], crowd[1])
	}
	e.deaths(ctx)
	return e.rows, nil
}

// record fills a column with the medians of the sides, and if worst is set with the greatest.
func (e *env) record(column string, worst bool, sides [2][]float64) {
	var medians []float64
	for i, all := range sides {
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		medians = append(medians, all[(len(all)-1)/2])
		text := number(medians[i])
		if worst {
			text += " · " + number(all[len(all)-1])
		}
		e.rows[i].cells[column] = text
	}
	if len(medians) == 2 {
		e.rows[2].cells[column] = number(medians[0] / medians[1])
	}
}

// number prints three significant digits, and at most three decimals.
func number(x float64) string {
	decimals := min(3, max(0, 2-int(math.Floor(math.Log10(math.Abs(x)+1e-9)))))
	return strconv.FormatFloat(x, 'f', decimals, 64)
}

func printTables(out io.Writer, rows []row) (err error) {
	crowd := handOver[1]
	for _, columns := range [][]string{
		append([]string{"ms"}, operations...),
		append([]string{"hand-over, ms, median · greatest"}, handOver...),
		append([]string{"s after the TTL, median · greatest"}, death...),
		{"swaps · lost ones", handOver[0] + swapped, crowd + swapped, handOver[2] + swapped, crowd + joins + swapped},
		{"ms", crowd + joins},
	} {
		text := strings.ReplaceAll("| "+strings.Join(columns, " | ")+" |\n|---|", "crowd", strconv.Itoa(waiters))
		columns = columns[1:]
		text = strings.ReplaceAll(text, swapped, "") + strings.Repeat("--:|", len(columns)) + "\n"
		for _, r := range rows {
			line := ""
			for _, c := range columns {
				line += " " + r.cells[c] + " |"
			}
			if strings.Trim(line, " |") != "" {
				text += "| " + r.name + " |" + line + "\n"
			}
		}
		_, failed := fmt.Fprintln(out, text)
		err = errors.Join(err, failed)
	}
	return err
}

func (e *env) newLink(c *closers) string {
	addr, end, err := slowlink.Start(e.addr)
	check(err)
	c.later(end)
	return addr
}

func (e *env) process(c *closers, link string, ttl time.Duration) *process {
	p := &process{env: e, addr: link, ttl: ttl}
	c.later(p.close)
	return p
}

// open opens n processes.
func (e *env) open(s side, n int) (all []locker, end func()) {
	var c closers
	for range n {
		all = append(all, s.open(e.process(&c, e.link, long)))
	}
	return all, c.close
}

// each calls f for each number below n at the same time. The first failure ends ctx.
func each(ctx context.Context, n int, f func(ctx context.Context, i int)) {
	all, ctx := errgroup.WithContext(ctx)
	for i := range n {
		all.Go(func() (err error) {
			defer rescue(&err)
			f(ctx, i)
			return nil
		})
	}
	check(all.Wait())
}

// resources numbers the resources: none has two uses.
var resources atomic.Int64

func newResource() string { return fmt.Sprintf("stores-%d", resources.Add(1)) }

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// operations lets two processes of each side acquire, renew and release in turn: the last
// holder was always the other one.
func (e *env) operations(ctx context.Context) {
	var took [3][2][]float64
	var lockers [2][]locker
	for i, s := range e.sides {
		all, end := e.open(s, 2)
		defer end()
		lockers[i] = all
	}
	for n := range pairs * len(e.sides) {
		i, n := n%len(e.sides), n/len(e.sides)
		var l lock
		for k, operation := range []func() error{
			func() (err error) { l, err = lockers[i][n%2](ctx, "operations"); return err },
			func() error { return l.renew(ctx) },
			func() error { return l.release(ctx) },
		} {
			if k == 1 && l.renew == nil {
				continue
			}
			time.Sleep(holding) // or a release would collide with the first renewal of client-go
			start := time.Now()
			check(operation())
			if n > 1 { // the first made the connections
				took[k][i] = append(took[k][i], ms(time.Since(start)))
			}
		}
	}
	for k, column := range operations {
		e.record(column, false, took[k])
	}
}

// handOvers lets the sides take turns at competing.
func (e *env) handOvers(ctx context.Context, column string, waiters, processes int) {
	var took, joined [2][]float64
	for n := range repeats * len(e.sides) {
		i := n % len(e.sides)
		if i > 0 && processes == 1 {
			continue // the session of a process is one holder
		}
		lockers, end := e.open(e.sides[i], processes)
		c := e.compete(ctx, lockers, waiters, i == 0)
		end()
		if took[i] = append(took[i], c.took...); i == 0 {
			joined[i] = append(joined[i], c.joined)
			e.rows[0].cells[column+swapped], e.rows[0].cells[column+joins+swapped] = c.swaps, c.swapsOfJoins
		}
	}
	e.record(column, true, took)
	e.record(column+joins, false, joined)
}

type competition struct {
	took   []float64 // hand-overs to processes that have waited, in ms
	joined float64   // until all of them waited, in ms
	// The swaps of a hand-over and of all joins, and the lost ones.
	swaps, swapsOfJoins string
}

// compete lets waiters and a holder compete for a lock, until there were enough hand-overs.
// The first holder holds until the others wait, which only an issuer shows. A holder waits
// again when the next one has the lock: some locks would give it the lock again.
func (e *env) compete(ctx context.Context, lockers []locker, waiters int, issuer bool) (c competition) {
	var (
		held     sync.Mutex            // of the process that has the lock; it guards what follows
		next     = make(chan struct{}) // is closed at the next grant
		released time.Time
		grants   int
		before   = e.swaps.read()
		start    = time.Now()
		resource = newResource()
	)
	since := func(n int) string {
		b, now := before, e.swaps.read()
		before = now
		return number((now[0]-b[0])/float64(n)) + " · " + number((now[1]-b[1])/float64(n))
	}
	open, over := context.WithCancel(ctx)
	defer over()
	each(open, waiters+1, func(open context.Context, i int) {
		for open.Err() == nil {
			l, err := lockers[i%len(lockers)](open, resource)
			granted := time.Now()
			if err != nil && open.Err() != nil {
				return
			}
			check(err)
			if !held.TryLock() {
				check(errors.New("two holders have it at the same time"))
			}
			close(next)
			next = make(chan struct{})
			if grants++; grants == 1 {
				for joined := 0.0; issuer && joined <= float64(waiters) || !issuer && time.Since(start) < time.Second; {
					sleep(open, time.Millisecond)
					now := e.swaps.read()
					joined = now[0] - before[0] - (now[1] - before[1])
				}
				c.joined, c.swapsOfJoins, start = ms(time.Since(start)), since(1), time.Now()
			} else {
				c.took = append(c.took, ms(granted.Sub(released)))
			}
			if c.swaps == "" && len(c.took) >= fewest && time.Since(start) > block {
				c.swaps = since(grants - 1)
				over()
			}
			time.Sleep(holding)
			released = time.Now()
			another := next
			held.Unlock()
			check(l.release(context.WithoutCancel(open)))
			select {
			case <-another:
			case <-open.Done():
			}
		}
	})
	return c
}

// deaths cuts the link of holders right after a renewal, and measures from then on. A
// newcomer comes when the TTL has passed.
func (e *env) deaths(ctx context.Context) {
	var mu sync.Mutex
	var took [2][2][]float64
	each(ctx, len(e.sides)*len(death)*2*repeats, func(ctx context.Context, n int) {
		i, kind, resource := n%len(e.sides), n/len(e.sides)%len(death), newResource()
		var c, link closers
		defer c.close()
		l, err := e.sides[i].open(e.process(&c, e.newLink(&link), ttl))(ctx, resource)
		check(err)
		var renewed, granted time.Time
		each(ctx, 2, func(ctx context.Context, who int) {
			if who == 0 {
				sleep(ctx, settled)
				renewed = l.renewed(ctx)
				link.close()
				return
			}
			sleep(ctx, time.Duration(kind)*(settled+ttl))
			next, err := e.sides[i].open(e.process(&c, e.link, ttl))(ctx, resource)
			check(err)
			granted = time.Now()
			check(next.release(ctx))
		})
		mu.Lock()
		defer mu.Unlock()
		took[kind][i] = append(took[kind][i], (granted.Sub(renewed) - ttl).Seconds())
	})
	for kind, column := range death {
		e.record(column, true, took[kind])
	}
}

// sleep fails if ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
		check(context.Cause(ctx))
	}
}

// closers are called in reverse order.
type closers []func()

func (c *closers) later(closer func()) { *c = append(*c, closer) }

func (c *closers) close() {
	for _, closer := range slices.Backward(*c) {
		closer()
	}
}

// failure is the panic of check and must, which rescue returns as an error.
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
	if over := recover(); over != nil {
		*err = over.(failure).error // of another kind: a panic
	}
}
