package stdsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

func TestTorture(t *testing.T)       { tortured(t, 100) }
func TestStressTorture(t *testing.T) { tortured(t, 1_000) }

func tortured(t *testing.T, writes int64) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		tt := newTorture(t, db, writes)
		tt.run(t, counting(db.guard()))
		require.Zero(t, tt.lost(t), "nothing is lost")
		require.Zero(t, tt.disorder(t), "nothing stale is accepted")
		require.GreaterOrEqual(t, tt.total.Load(), tt.writes)
	})
}

func TestStressTortureOfTheReportOnlyTwin(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		tt := newTorture(t, db, 100)
		g := db.guard()
		g.DangerouslyReportOnly, g.Hooks.Reported = true, func(context.Context, error) {}
		reportOnly := counting(g)
		tt.run(t, func(ctx context.Context, tok token.Token) error {
			// Each acknowledged write comes after its successor's.
			if err := tt.write(ctx, tt.mint(tok.Resource, "successor"), reportOnly); err != nil {
				return err
			}
			err := reportOnly(ctx, tok)
			if guard.IsRefusal(err) {
				t.Error("the twin must refuse nothing:", err)
			}
			return err
		})
		require.NotZero(t, tt.disorder(t), "the twin must accept the stale")
	})
}

func TestStressTortureOfTheTwinThatReadsBeforeItIsAdmitted(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		tt := newTorture(t, db, 100)
		g := db.guard()
		tt.run(t, func(ctx context.Context, tok token.Token) error {
			n, err := countRead(ctx, tt, tok.Resource)
			if err != nil {
				return err
			}
			// Each acknowledged write overwrites another one of its holder.
			if err := tt.write(ctx, tok, counting(g)); err != nil {
				return err
			}
			return g.Update(ctx, tok.Resource, func(tx *sql.Tx) error { return countWrite(ctx, tx, n+1, tok) })
		})
		require.NotZero(t, tt.lost(t), "the twin must lose writes")
	})
}

const (
	tortureWriters   = 8
	tortureResources = 3
)

// torture has writers with new, old and colliding tokens increment a few counters, and
// roll some increments back.
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

// run ends after that many writes of the update were acknowledged.
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
					tt.retryable.Add(1) // for example two claims of a resource without a mark
				case !errors.Is(err, guard.ErrStale) && !errors.Is(err, errRolledBack):
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d applied, %d to be run again", tt.total.Load(), tt.retryable.Load())
}

// choose mints for six writes in ten, collides in one of thirty, and otherwise returns
// the writer's own token, which is mostly stale by then.
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

// write returns the update's error, or its own error for a refusal that cannot be right.
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

var errRolledBack = errors.New("rolled back")

// counting is one read-modify-write, in three steps. One in ten rolls back.
func counting(g *stdsql.Guard) update {
	return func(ctx context.Context, tok token.Token) error {
		return g.Update(ctx, tok.Resource, func(tx *sql.Tx) error {
			n, err := countRead(ctx, tx, tok.Resource)
			if err != nil {
				return err
			}
			return countWrite(ctx, tx, n+1, tok)
		})
	}
}

func countRead(ctx context.Context, q querier, resource string) (n int64, err error) {
	err = q.QueryRowContext(ctx, "SELECT n FROM counters WHERE resource = '"+resource+"'").Scan(&n)
	return n, err
}

func countWrite(ctx context.Context, q querier, n int64, tok token.Token) error {
	for _, statement := range []string{
		fmt.Sprintf("INSERT INTO ledger (resource, number, holder) VALUES ('%s', %d, '%s')", tok.Resource, tok.Number, tok.Holder),
		fmt.Sprintf("UPDATE counters SET n = %d WHERE resource = '%s'", n, tok.Resource),
	} {
		if _, err := q.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if rand.IntN(10) == 0 {
		return errRolledBack
	}
	return nil
}

// lost counts the acknowledged writes that the counters lack.
func (tt *torture) lost(t *testing.T) (lost int64) {
	t.Helper()
	for resource, counter := range tt.counters {
		n, err := countRead(t.Context(), tt, resource)
		require.NoError(t, err)
		lost += counter.acked.Load() - n
	}
	return lost
}

// disorder counts the writes that came after one of a newer token, or of
// another holder with the same number.
func (tt *torture) disorder(t *testing.T) (disorder int) {
	t.Helper()
	rows, err := tt.QueryContext(t.Context(), "SELECT resource, number, holder FROM ledger ORDER BY seq")
	require.NoError(t, err)
	defer rows.Close()
	marks := map[string]guard.Mark{}
	for rows.Next() {
		var tok token.Token
		require.NoError(t, rows.Scan(&tok.Resource, &tok.Number, &tok.Holder))
		if marks[tok.Resource].Admits(tok) != nil {
			disorder++
			continue
		}
		marks[tok.Resource] = guard.Mark{Number: tok.Number, Holder: tok.Holder}
	}
	require.NoError(t, rows.Err())
	return disorder
}
