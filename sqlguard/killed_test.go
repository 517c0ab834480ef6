package sqlguard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
)

func TestKilledServer(t *testing.T) {
	t.Parallel()
	spare := testenv.SparePostgres(t)
	t.Run("keeps every acknowledged write and mark", func(t *testing.T) {
		newKilled(t, spare, "kept", "on").keeps(1)
	})
}

// Without synchronous commits a crash loses writes.
func TestStressKilledServerThatLoses(t *testing.T) {
	t.Parallel()
	spare := testenv.SparePostgres(t)
	// hazard G26
	t.Run("with asynchronous commits, loses writes but no claimed mark", func(t *testing.T) {
		k := newKilled(t, spare, "lost", "off")
		for k.lost == 0 { // the twin must lose writes, or the rounds prove nothing
			k.round()
		}
		require.Zero(t, k.fallen)
		require.Zero(t, k.ghosts)
	})
	t.Run("loses a mark that was raised by a plain, asynchronous commit", func(t *testing.T) {
		k := newKilled(t, spare, "fallen", "off")
		k.claim = func(ctx context.Context, tok token.Token) error {
			_, err := k.pool.Exec(ctx, "SELECT fallen.admit($1, $2, $3)", tok.Resource, tok.Number, tok.Holder)
			return err
		}
		for k.fallen == 0 { // the twin must lose a mark
			k.round()
		}
	})
}

func TestStressKilledServer(t *testing.T) {
	t.Parallel()
	k := newKilled(t, testenv.SparePostgres(t), "kept", "on")
	k.keeps(20)
	require.Positive(t, k.unknown, "no round met a write on its way")
}

// keeps kills the server during guarded writes, and fails if an acknowledged write is
// lost.
func (k *killed) keeps(kills int) {
	k.t.Helper()
	for range kills {
		k.round()
	}
	require.Zero(k.t, k.lost, "acknowledged writes that are gone")
	require.Zero(k.t, k.fallen, "marks below an acknowledged one")
	require.Zero(k.t, k.ghosts, "writes that are there although nothing was applied")
	k.t.Logf("%d acknowledged, %d unknown", k.acknowledged, k.unknown)
}

// killed has sixteen writers, whose server is killed repeatedly.
type killed struct {
	t     *testing.T
	spare *testenv.Spare
	pool  *pgxpool.Pool
	fence *sqlguard.Guard
	claim func(ctx context.Context, tok token.Token) error
	rows  *rowguard.Table // the last of the doors, where there are four
	doors int
	table string
	tok   token.Token

	mu   sync.Mutex
	op   int64
	told map[int64]error

	acknowledged, unknown, lost, ghosts, fallen int
}

func newKilled(t *testing.T, spare *testenv.Spare, schema, synchronous string) *killed {
	t.Helper()
	pool := pgtest.Pool(t, spare.URL(), func(c *pgxpool.Config) {
		c.MaxConns, c.ConnConfig.RuntimeParams["synchronous_commit"] = writers, synchronous
	})
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	require.NoError(t, migrations.Set{Schema: schema}.Up(t.Context(), db))
	k := &killed{t: t, spare: spare, pool: pool, doors: 3, table: pgx.Identifier{schema, "ledger"}.Sanitize(), told: map[int64]error{}}
	k.fence = &sqlguard.Guard{DB: pool, Schema: schema, IdleTimeout: patient}
	k.claim = k.fence.Admit
	if synchronous == "on" { // its claims are durable, and would also flush asynchronous commits of the others
		k.rows, k.doors = &rowguard.Table{Guard: k.fence, Name: pgx.Identifier{schema, "ledger"}, Key: "op", Prefix: "op/"}, 4
	}
	_, err := pool.Exec(t.Context(), "SET LOCAL synchronous_commit = on; CREATE TABLE "+k.table+
		" (op bigint PRIMARY KEY, last_token bigint NOT NULL DEFAULT 0, last_holder text NOT NULL DEFAULT '')")
	require.NoError(t, err)
	return k
}

// round lets writers write until the server is killed, and compares the remaining rows
// with the results that the writers got.
func (k *killed) round() {
	k.t.Helper()
	k.tok = token.Token{Resource: resource, Number: k.tok.Number + 1, Holder: fmt.Sprint("h", k.tok.Number+1)}
	require.NoError(k.t, k.claim(k.t.Context(), k.tok))
	ctx, stop := context.WithCancel(token.NewContext(k.t.Context(), k.tok))
	busy := make(chan struct{}, writers)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() { k.write(ctx, w%k.doors, busy) })
	}
	for range writers {
		<-busy
	}
	k.spare.Crash()
	stop()
	group.Wait()
	k.pool.Reset() // a writer that was stopped has left a dead connection
	k.judge()
}

// write writes until something fails, and signals busy once.
func (k *killed) write(ctx context.Context, door int, busy chan<- struct{}) {
	for n := 0; ; n++ {
		k.mu.Lock()
		k.op++
		op := k.op
		k.mu.Unlock()
		err := k.insert(ctx, door, op)
		k.mu.Lock()
		k.told[op] = err
		k.mu.Unlock()
		if n == 4 || err != nil && n < 4 {
			busy <- struct{}{}
		}
		if err != nil {
			return
		}
	}
}

func (k *killed) insert(ctx context.Context, door int, op int64) error {
	text := "INSERT INTO " + k.table + " VALUES ($1)"
	write := func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, text, op)
		return err
	}
	switch door {
	case 0:
		return k.fence.Update(ctx, resource, write)
	case 1:
		_, err := k.fence.On(resource).Exec(ctx, text, op)
		return err
	case 3: // a row of its own, with its mark
		own := token.Token{Resource: fmt.Sprint("op/", op), Number: k.tok.Number, Holder: k.tok.Holder}
		return k.rows.Insert(token.NewContext(ctx, own), op, nil)
	}
	err := pgx.BeginFunc(ctx, k.pool, func(tx pgx.Tx) error {
		if err := k.fence.Join(ctx, tx, resource); err != nil {
			return err
		}
		return write(tx)
	})
	if err != nil { // pgx's own COMMIT does not return an outcome
		return errors.Join(guard.ErrUnknown, err)
	}
	return nil
}

// judge checks for every write whether it is in the database.
func (k *killed) judge() {
	k.t.Helper()
	k.acknowledged, k.unknown, k.lost, k.ghosts = 0, 0, 0, 0
	rows, err := k.pool.Query(k.t.Context(), "SELECT op FROM "+k.table)
	require.NoError(k.t, err)
	ops, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(k.t, err)
	there := map[int64]bool{}
	for _, op := range ops {
		there[op] = true
	}
	for op, err := range k.told {
		switch {
		case err == nil:
			k.acknowledged++
			if !there[op] {
				k.lost++
			}
		case errors.Is(err, guard.ErrUnknown):
			k.unknown++
		case there[op]:
			k.ghosts++
		}
	}
	var mark int64
	err = k.pool.QueryRow(k.t.Context(), "SELECT number FROM "+pgx.Identifier{k.fence.Schema, "marks"}.Sanitize()+" WHERE resource = $1", resource).Scan(&mark)
	if err != nil || mark < k.tok.Number {
		k.fallen++
	}
}
