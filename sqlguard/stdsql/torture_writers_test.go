package stdsql_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

const (
	tortureWriters   = 8
	tortureResources = 3
)

// torture has writers with new, old and colliding tokens add to few counters,
// and roll some of it back.
type torture struct {
	*database
	writes   int64
	counters map[string]*counter // by resource
	total    atomic.Int64

	retryable atomic.Int64
}

type counter struct{ minted, acked atomic.Int64 }

// update is one write, under the token that ctx carries.
type update func(ctx context.Context, tok token.Token) error

func newTorture(t *testing.T, db *database, writes int64) *torture {
	t.Helper()
	tt := &torture{database: db, writes: writes, counters: map[string]*counter{}}
	tt.SetMaxOpenConns(2 * tortureWriters) // a claim that ends a session needs another
	run(t, tt, "CREATE TABLE counters (resource VARCHAR(200) PRIMARY KEY, n BIGINT NOT NULL)")
	for r := range tortureResources {
		tt.counters[resource(r)] = new(counter)
		run(t, tt, "INSERT INTO counters VALUES ('"+resource(r)+"', 0)")
	}
	return tt
}

func resource(r int) string { return fmt.Sprint("counter/", r) }

// run ends after so many writes of the update were acknowledged.
func (tt *torture) run(t *testing.T, update update) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var all sync.WaitGroup
	for i := range tortureWriters {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			var own [tortureResources]token.Token
			for n := 0; tt.total.Load() < tt.writes && !t.Failed(); n++ {
				r := random.IntN(tortureResources)
				err := tt.write(t.Context(), tt.choose(random, &own[r], resource(r), fmt.Sprint(i, ":", n)), update)
				switch {
				case err == nil:
					tt.total.Add(1)
				case errors.Is(err, guard.ErrRetryable) && tt.dialect == stdsql.MySQL:
					tt.retryable.Add(1) // two claims of a resource without a mark, say
				case !errors.Is(err, guard.ErrStale) && !errors.Is(err, errRolledBack):
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d applied, %d to be run again", tt.total.Load(), tt.retryable.Load())
}

// choose mints for six writes in ten, collides in one of thirty, and else goes
// on with what the writer has: most often overtaken by then.
func (tt *torture) choose(random *rand.Rand, own *token.Token, resource, holder string) token.Token {
	number, dice := tt.counters[resource].minted.Load(), random.IntN(120)
	switch {
	case own.Number == 0 || dice < 72:
		*own = tt.mint(resource, holder)
	case dice < 76:
		return token.Token{Resource: resource, Number: number, Holder: holder}
	}
	return *own
}

func (tt *torture) mint(resource, holder string) token.Token {
	return token.Token{Resource: resource, Number: tt.counters[resource].minted.Add(1), Holder: holder}
}

// write returns the update's error, or one of its own in place of a refusal
// that cannot be right.
func (tt *torture) write(ctx context.Context, tok token.Token, update update) error {
	err := update(token.NewContext(ctx, tok), tok)
	counter := tt.counters[tok.Resource]
	var stale *guard.StaleError
	switch {
	case err == nil:
		counter.acked.Add(1)
	case errors.As(err, &stale) && (stale.Mark.Admits(tok) == nil || stale.Mark.Number > counter.minted.Load()):
		return fmt.Errorf("%+v was refused because of %+v", tok, stale.Mark)
	}
	return err
}
