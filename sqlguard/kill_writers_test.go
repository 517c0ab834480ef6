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
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// killed are sixteen writers whose server is killed, again and again.
type killed struct {
	t     *testing.T
	spare *testenv.Spare
	pool  *pgxpool.Pool
	fence *sqlguard.Guard
	claim func(ctx context.Context, tok token.Token) error
	rows  *sqlguard.Table // the last of the doors, where there are four
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
	config, err := pgxpool.ParseConfig(spare.URL())
	require.NoError(t, err)
	config.MaxConns = writers
	config.ConnConfig.RuntimeParams["synchronous_commit"] = synchronous
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	require.NoError(t, migrations.Set{Schema: schema}.Up(t.Context(), db))
	k := &killed{t: t, spare: spare, pool: pool, doors: 3, table: pgx.Identifier{schema, "ledger"}.Sanitize(), told: map[int64]error{}}
	k.fence = &sqlguard.Guard{DB: pool, Schema: schema}
	k.claim = k.fence.Admit
	if synchronous == "on" { // its claims are durable, and would save what others have committed asynchronously
		k.rows, k.doors = &sqlguard.Table{Guard: k.fence, Name: pgx.Identifier{schema, "ledger"}, Key: "op", Prefix: "op/"}, 4
	}
	_, err = pool.Exec(t.Context(), "SET LOCAL synchronous_commit = on; CREATE TABLE "+k.table+
		" (op bigint PRIMARY KEY, last_token bigint NOT NULL DEFAULT 0, last_holder text NOT NULL DEFAULT '')")
	require.NoError(t, err)
	return k
}

// round has writers write until the server is killed, and holds what is there
// afterwards against what they were told.
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
	k.judge()
}

// write writes until something fails, and says once that it is at it.
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
	if err != nil { // pgx's own COMMIT does not say what became of it
		return errors.Join(guard.ErrUnknown, err)
	}
	return nil
}

// judge looks for everything that was ever written.
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
