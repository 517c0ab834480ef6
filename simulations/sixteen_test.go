package simulations_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/token"
)

// way is one way to write to a row under its token in ctx.
type way struct {
	// claim raises the mark.
	claim func(ctx context.Context, tok token.Token) error
	// add adds one to the row's version. If alone is true, no other goroutine writes
	// under the same token now, so add may read first and then write.
	add func(ctx context.Context, row string, alone bool) (seen, made int64, err error)
	// count returns the row's version, which starts at 0.
	count func(ctx context.Context, row string) (int64, error)
	// mark reads the guard's mark.
	mark func(ctx context.Context, row string) (guard.Mark, error)
	// forget is called now and then, if it is not nil. Below least every token of a row
	// has been replaced.
	forget func(ctx context.Context, least int64) error
	// busy reports that others may interfere: guard.ErrRetryable is expected.
	busy bool
}

const (
	contended = 4
	writers   = 16
)

// manyHistories is the number of writes to PostgreSQL, in all ways together, unless
// FENCEPOST_TORTURE sets it.
const manyHistories = 20_000

// sixteen writers write to four rows, each time with the newest token, an older one, or
// an impostor's of the newest, and record the results.
type sixteen struct {
	way
	t       testing.TB
	seed    uint64
	rec     *history.Recorder
	numbers atomic.Int64
	turns   sync.Map // of token.Token: *sync.RWMutex

	mu     sync.Mutex
	issued [contended][]token.Token
}

func newSixteen(t testing.TB, w way) *sixteen {
	s := &sixteen{way: w, t: t, seed: rand.Uint64(), rec: history.NewRecorder()}
	if given, err := strconv.ParseUint(os.Getenv("FENCEPOST_TEST_SEED"), 10, 64); err == nil {
		s.seed = given
	}
	for row := range contended {
		s.issue("issuer", row)
	}
	return s
}

// run makes at least ops writes, and returns the rules that the history breaks.
func (s *sixteen) run(ops int) []history.Violation {
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(s.seed, uint64(w)))
			for range (ops + writers - 1) / writers {
				s.step(fmt.Sprint("writer ", w), rng)
			}
		})
	}
	group.Wait()
	for row := range contended {
		s.look("judge", row)
	}
	broken, err := history.Check(s.rec.History())
	require.NoError(s.t, err)
	return broken
}

// step makes one operation, mostly a write.
func (s *sixteen) step(writer string, rng *rand.Rand) {
	row := rng.IntN(contended)
	switch n := rng.IntN(100); {
	case n < 2:
		s.look(writer, row)
	case n < 4 && s.forget != nil:
		s.forgets(writer)
	case n < 9:
		s.claims(writer, s.issue(writer, row))
	}
	s.write(writer, s.draw(rng, row), rng.IntN(2) == 0)
}

// forgets deletes old marks. All marks count as old.
func (s *sixteen) forgets(writer string) {
	for row := range contended {
		s.issue(writer, row)
	}
	least := s.least()
	var floors []*history.Open
	for row := range contended { // a row without a mark then refuses tokens below least
		floors = append(floors, s.rec.Begin(op(history.Claim, writer, token.Token{Resource: name(row), Number: least})))
	}
	require.NoError(s.t, s.forget(s.t.Context(), least))
	for _, floor := range floors {
		floor.End(history.Unknown, nil)
	}
}

// issue grants the next number.
func (s *sixteen) issue(writer string, row int) token.Token {
	s.mu.Lock()
	defer s.mu.Unlock()
	tok := token.Token{Resource: name(row), Number: s.numbers.Add(1)}
	tok.Holder = fmt.Sprint("holder ", tok.Number)
	s.rec.Begin(op(history.Acquire, writer, tok)).End(history.Accepted, nil)
	s.issued[row] = append(s.issued[row], tok)
	return tok
}

// draw returns an issued token of the row, mostly the newest.
func (s *sixteen) draw(rng *rand.Rand, row int) token.Token {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.issued[row]
	tok := all[len(all)-1]
	switch n := rng.IntN(100); {
	case n < 20:
		tok = all[max(0, len(all)-2-rng.IntN(3))]
	case n < 22:
		tok.Holder = fmt.Sprint("impostor ", tok.Number)
	}
	return tok
}

// least returns the least of the rows' newest numbers.
func (s *sixteen) least() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var newest []int64
	for _, all := range s.issued {
		newest = append(newest, all[len(all)-1].Number)
	}
	return slices.Min(newest)
}

func (s *sixteen) claims(writer string, tok token.Token) {
	asked := s.rec.Begin(op(history.Claim, writer, tok))
	err := s.claim(s.t.Context(), tok)
	asked.End(history.OutcomeOf(err), nil)
	s.unexpected(tok, err)
}

func (s *sixteen) write(writer string, tok token.Token, alone bool) {
	turn, _ := s.turns.LoadOrStore(tok, &sync.RWMutex{})
	lock := turn.(*sync.RWMutex).RLocker() // writers under one token run in parallel
	if alone {
		lock = turn.(*sync.RWMutex)
	}
	lock.Lock()
	defer lock.Unlock()
	unit, write := s.rec.Begin(op(history.Unit, writer, tok)), s.rec.Begin(op(history.Write, writer, tok))
	// The first write of an unclaimed token claims it. It may be refused after that:
	// its number was not granted to this holder.
	claim := s.rec.Begin(op(history.Claim, writer, tok))
	seen, made, err := s.add(token.NewContext(s.t.Context(), tok), tok.Resource, alone)
	claim.End(history.Unknown, nil)
	write.End(history.OutcomeOf(err), func(op *history.Op) {
		if err == nil {
			op.Seen, op.Made = seen, made
		}
	})
	unit.End(history.OutcomeOf(err), nil)
	s.unexpected(tok, err)
}

func (s *sixteen) unexpected(tok token.Token, err error) {
	if err == nil || guard.IsRefusal(err) || s.busy && errors.Is(err, guard.ErrRetryable) {
		return
	}
	s.t.Errorf("under %s: %v", tok, err)
}

func (s *sixteen) look(writer string, row int) {
	read := s.rec.Begin(history.Op{Kind: history.Read, Writer: writer, Resource: name(row)})
	counted, err := s.count(s.t.Context(), name(row))
	require.NoError(s.t, err)
	read.End(history.Accepted, func(op *history.Op) { op.Counted = int(counted) })
	if s.mark == nil {
		return
	}
	looked := s.rec.Begin(history.Op{Kind: history.Mark, Writer: writer, Resource: name(row)})
	mark, err := s.mark(s.t.Context(), name(row))
	require.NoError(s.t, err)
	looked.End(history.Accepted, func(op *history.Op) { op.Number, op.Holder = mark.Number, mark.Holder })
}

func name(row int) string { return fmt.Sprint("row/", row) }

func op(kind history.Kind, writer string, tok token.Token) history.Op {
	return history.Op{Kind: kind, Writer: writer, Resource: tok.Resource, Number: tok.Number, Holder: tok.Holder}
}
