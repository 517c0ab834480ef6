// Package cut breaks the connection of each operation of each guard at every byte, and
// compares the error that the caller got with the state of the server.
//
//	door ──▶ relay ──▶ server     the relay passes a number of bytes, and then cuts
//	     ◀──       ◀──
//
// nil must mean applied once. A refusal, and every error except guard.ErrUnknown, must mean
// that nothing was or will be applied. A door that settles its COMMIT must never return
// guard.ErrUnknown, since the server can be reached by another connection. After the cut a
// successor must be admitted, the older token must be refused, and the pool must be in its
// old state.
package cut_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
)

const (
	// envCuts is the distance between two cuts in bytes. With 1 every byte is cut, with
	// every kind of cut.
	envCuts = "FENCEPOST_CUTS"
	// hang is when a test that hangs fails.
	hang = 5 * time.Minute
	// resource and neighbour are the resources that all doors write to.
	resource, neighbour = "account/42", "account/43"
)

func TestMain(m *testing.M) {
	testenv.AtOnce(8)
	leaktest.Main(m)
}

// site is a server with guards that reach it through a relay, and guards that reach it
// directly.
type site struct {
	*testing.T
	name   string
	relay  *relay
	doors  []door
	fresh  func()                 // ends the connections of the guards, so that the next call opens one
	quiet  func(ports []int) bool // the server has ended the connections from these ports
	check  func() error           // checks what a cut has left in the guards' pool
	evicts bool                   // a successor is admitted while the older writer's session is open
	number int64
	twin   bool  // it is broken on purpose
	err    error // the first finding, for a twin
}

// door is one operation of a guard.
type door struct {
	name    string
	do      func(ctx context.Context) error
	claim   func(ctx context.Context, tok token.Token) error // without the relay
	reset   func()                                           // makes the write possible again
	count   func(tok token.Token) int64                      // how many writes were applied since reset
	mark    bool                                             // it writes a mark, which a newer mark replaces
	settled bool                                             // it asks the server what became of its COMMIT, so it never returns ErrUnknown here
	bare    bool                                             // it takes no admission lock: a successor waits until the server ends its session
	behind  int                                              // number of packets after the one with the COMMIT
	tokens  []string                                         // the states of its token in which it is tried
	once    *work                                            // what it applies once, or nil
}

// work is a unit of work. Each reset begins another one.
type work struct{ number int64 }

// lastUnit is the number of the last unit that was begun. Doors share a server.
var lastUnit atomic.Int64

func (w *work) unit() guard.Unit { return guard.Unit{Key: fmt.Sprint("unit/", w.number)} }

var everyToken = []string{"claimed", "new", "stale"}

// tally counts the outcomes of a series of cuts.
type tally struct {
	cuts, uncut, applied, refused, failed, unknown, unknownApplied, needless, broken int
	needlessAt                                                                       []int
}

// attempt is one call of a door with one cut.
type attempt struct {
	*site
	door  door
	token string
	setup bool // the cut comes while the connection is opened
	row   *tally
	cut   *cut
	ctx   context.Context
	tok   token.Token
}

func (s *site) holding(number int64) (context.Context, token.Token) {
	ctx, cancel := context.WithTimeout(s.Context(), hang)
	context.AfterFunc(s.Context(), cancel)
	tok := token.Token{Resource: resource, Number: number, Holder: fmt.Sprintf("h%d", number)}
	second := tok
	second.Resource = neighbour
	return token.NewContext(token.NewContext(ctx, tok), second), tok
}

func (a *attempt) reset() {
	a.door.reset()
	if a.door.once != nil {
		a.door.once.number = lastUnit.Add(1)
	}
}

// ready opens the connection, unless the opening is to be cut, and brings the token into
// its state.
func (a *attempt) ready() {
	a.number += 10
	if a.setup {
		a.fresh()
		a.await("the pool ends its connections", a.relay.idle)
	} else {
		ctx, tok := a.holding(a.number - 1)
		a.reset()
		require.NoError(a, a.door.claim(ctx, tok))
		var err error
		for range 3 { // an idle connection of the pool may have been cut
			if err = a.door.do(ctx); err == nil {
				break
			}
			a.reset()
		}
		require.NoError(a, err, "uncut")
	}
	a.reset()
	a.ctx, a.tok = a.holding(a.number)
	switch a.token {
	case "claimed":
		require.NoError(a, a.door.claim(a.ctx, a.tok))
	case "stale":
		newer, tok := a.holding(a.number + 1)
		require.NoError(a, a.door.claim(newer, tok))
	}
}

// call makes the call that is cut, and returns its error.
func (a *attempt) call() error {
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	told := make(chan error, 1)
	a.relay.arm(a.cut)
	go func() { told <- a.door.do(ctx) }()
	select {
	case err := <-told:
		return err
	case <-a.cut.struck:
	}
	if a.cut.kind == leave || a.cut.kind == dropsRepliesSilently {
		cancel()
		select {
		case err := <-told:
			return err
		case <-time.After(20 * time.Millisecond): // a COMMIT continues after its caller has left
			a.relay.drop()
		}
	}
	select {
	case err := <-told:
		return err
	case <-time.After(hang):
		a.Fatalf("%v hangs", a)
		return nil
	}
}

// String names the attempt.
func (a *attempt) String() string {
	way := []string{"to the server", "to the client"}[a.cut.way]
	return fmt.Sprintf("%s, %s, %s token, setup %v: %s behind byte %d %s", a.name, a.door.name, a.token, a.setup, a.cut.kind, a.cut.at, way)
}

// run makes the attempt and judges it. before is the offset of the last packet of an
// uncut call.
func (a *attempt) run(before int) {
	a.ready()
	told := a.call()
	evicts := a.evicts && !a.door.bare
	if evicts {
		a.succeed()
	}
	ports := a.relay.release()
	a.await("the server ends the connection", func() bool { return a.quiet(ports) })
	applied := a.door.count(a.tok)
	if !evicts {
		a.succeed()
		if !a.door.mark { // data that a pooler held may have arrived before the successor
			applied = a.door.count(a.tok)
		}
	}
	a.note(told, applied, before)
	a.after(applied)
}

// succeed admits a newer token.
func (a *attempt) succeed() {
	ctx, tok := a.holding(a.number + 5)
	if err := a.door.claim(ctx, tok); err != nil {
		a.broken("its successor is not admitted: %v", err)
	}
}

// note judges the error that the caller got.
func (a *attempt) note(told error, applied int64, before int) {
	c := a.row
	c.cuts++
	if !a.cut.made {
		c.uncut++
	}
	switch {
	case told == nil:
		c.applied++
		a.want(applied == 1 && a.token != "stale", "told nil", applied)
	case errors.Is(told, guard.ErrUnknown):
		c.unknown++
		a.want(!a.door.settled, "not settled: "+told.Error(), applied)
		if applied > 0 {
			c.unknownApplied++
		} else if a.cut.way == up && a.cut.at <= before && a.cut.kind != late && a.cut.kind != leave {
			c.needless++
			c.needlessAt = append(c.needlessAt, a.cut.at)
		}
		a.want(applied <= 1 && !(a.token == "stale" && applied > 0), "told "+told.Error(), applied)
	case errors.Is(told, guard.ErrStale):
		c.refused++
		a.want(applied == 0 && a.token == "stale", "refused", applied)
	default:
		c.failed++
		a.want(applied == 0 || a.door.mark && a.door.bare, "told "+told.Error(), applied)
		a.want(a.cut.made, "fails without a cut: "+told.Error(), applied)
	}
}

func (a *attempt) want(is bool, told string, applied int64) {
	if !is {
		a.row.broken++
		a.broken("%s, applied %d times", told, applied)
	}
}

func (a *attempt) broken(format string, args ...any) {
	err := fmt.Errorf("%v: %s", a, fmt.Sprintf(format, args...))
	if a.twin {
		a.err = errors.Join(a.err, err)
		return
	}
	a.Error(err)
}

// after tries the old token again, and checks the pool. A unit that was applied gives its
// first result to the old token too.
func (a *attempt) after(applied int64) {
	if !strings.HasSuffix(a.door.name, "Mint") {
		var err error
		for range 4 { // an idle connection of the pool may have been cut
			if err = a.door.do(a.ctx); err == nil || errors.Is(err, guard.ErrStale) {
				break
			}
		}
		repeated := a.door.once != nil && applied == 1
		if repeated && err != nil || !repeated && !errors.Is(err, guard.ErrStale) {
			a.broken("after its successor it gets %v", err)
		}
		if now := a.door.count(a.tok); now != applied && !a.door.mark {
			a.broken("applied %d times, later %d", applied, now)
		}
	}
	for deadline := time.Now().Add(hang); ; time.Sleep(time.Millisecond) { // a pool ends a dead connection in the background
		err := a.check()
		if err != nil && time.Now().After(deadline) {
			a.broken("the pool: %v", err)
		}
		if err == nil || time.Now().After(deadline) {
			return
		}
	}
}

func (s *site) await(what string, is func() bool) {
	for deadline := time.Now().Add(hang); !is(); time.Sleep(time.Millisecond) {
		require.True(s, time.Now().Before(deadline), what)
	}
}

// series cuts one door at every stride-th byte, with the kinds of cuts in turn. No
// message of a protocol is shorter than the number of kinds, so each message is cut in
// every way, and so is each packet's end.
func (s *site) series(d door, state string, setup bool, stride int) {
	row := &tally{}
	whole := &attempt{site: s, door: d, token: state, setup: setup, row: row, cut: &cut{at: 1 << 30}}
	whole.run(0)
	before := 0
	if ends := whole.cut.ends[up]; len(ends) > d.behind+1 {
		before = ends[len(ends)-2-d.behind]
	}
	turn := len(d.name) + len(state)
	for way, kinds := range [][]string{{fin, rst, late, leave}, {fin, rst, dropsReplies, dropsRepliesSilently}} {
		for _, at := range whole.cut.points(way, stride) {
			turn++
			every := stride == 1 && slices.Contains(whole.cut.ends[way], at)
			for i, kind := range kinds {
				if every || (turn+i)%len(kinds) == 0 {
					a := &attempt{site: s, door: d, token: state, setup: setup, row: row, cut: &cut{way: way, at: at, kind: kind}}
					a.run(before)
				}
			}
		}
	}
	s.Logf("| %s | `%s` | %s | setup %v | %d | %d | %d | %d | %d | %d | %d | %d | %d | %v %v", s.name, d.name, state, setup,
		row.cuts, row.uncut, row.applied, row.refused, row.failed, row.unknown, row.unknownApplied, row.needless, row.broken, row.needlessAt, whole.cut.ends)
}

// points returns where to cut: every stride-th byte, and if stride is above 1 also each
// packet's end, or the byte before it.
func (c *cut) points(way, stride int) (points []int) {
	total := c.passed[way]
	for at := 0; at <= total; at += stride {
		points = append(points, at)
	}
	if stride > 1 {
		for _, end := range c.ends[way] {
			points = append(points, end-len(points)%2)
		}
	}
	slices.Sort(points)
	return slices.Compact(points)
}

// attack cuts all doors.
func (s *site) attack() {
	full := os.Getenv(envCuts) != ""
	stride := testenv.Rounds(s.T, envCuts, 499)
	s.Log("| site | door | token | series | cuts | not reached | nil | refused | failed | unknown | of these applied | needless | broken |")
	for i, d := range s.doors {
		for j, state := range d.tokens {
			if full || (i+j)%len(d.tokens) == 0 {
				s.part(d.name+", "+state, func() { s.series(d, state, false, stride) })
			}
		}
		if full || i == 0 {
			s.part(d.name+", connecting", func() { s.series(d, d.tokens[0], true, stride*(7+24*min(1, i))) })
		}
	}
}

// part runs a subtest.
func (s *site) part(name string, do func()) {
	whole := s.T
	defer func() { s.T = whole }()
	whole.Run(name, func(t *testing.T) { s.T = t; do() })
}
