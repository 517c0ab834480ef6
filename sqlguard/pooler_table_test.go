package sqlguard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/sqlguard"
)

// hazard P8
func TestTableBehindAPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range pooledModes {
		t.Run("in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			e, url := newRows(t), testenv.PgBouncer(t)
			pool := client(t, url, mode, clients)
			accounts := e.table(e.with(func(g *sqlguard.Guard) { g.DB = pool }))
			for name, door := range rowDoors(e.env, accounts) {
				t.Run(name, func(t *testing.T) { throughRow(t, e.env, door) })
			}
			if mode == pgx.QueryExecModeDescribeExec {
				return // not among many clients: see TestDescribedStatementsBehindAPooler
			}
			t.Run("twelve clients with mixed tokens", func(t *testing.T) {
				require.Empty(t, rivals(e, accounts.Update))
				plain := func(ctx context.Context, _ any, set sqlguard.Set) error {
					_, err := pool.Exec(ctx, e.sql("UPDATE accounts SET writer = $1 WHERE id = 42"), set[0][1])
					return err
				}
				require.NotEmpty(t, rivals(e, plain), "the twin, which asks for no mark")
			})
		})
	}
}

// rivals has twelve clients write their numbers, in no order, and returns what
// was written below a higher one. What was written and what they were told must
// be the same.
func rivals(e rowsEnv, update func(context.Context, any, sqlguard.Set) error) (fallen []string) {
	e.t.Helper()
	e.exec("CREATE TABLE IF NOT EXISTS ledger (n bigserial, number bigint)")
	e.exec("TRUNCATE ledger")
	e.exec("UPDATE accounts SET writer = '', last_token = 0, last_holder = '' WHERE id = 42")
	e.exec(`CREATE OR REPLACE FUNCTION ` + e.schema + `.keep() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN INSERT INTO ledger (number) VALUES (NEW.writer::bigint); RETURN NEW; END'`)
	e.exec("CREATE OR REPLACE TRIGGER keep AFTER UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION " + e.schema + ".keep()")
	defer e.exec("DROP TRIGGER keep ON accounts")
	var mu sync.Mutex
	told := []int64{}
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for range 40 {
				number := 1 + rand.Int64N(200)
				err := update(e.ctx(number), int64(42), sqlguard.Set{{"writer", fmt.Sprint(number)}})
				if err != nil && !errors.Is(err, guard.ErrStale) {
					e.t.Errorf("#%d: %v", number, err)
				}
				if mu.Lock(); err == nil {
					told = append(told, number)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	written := query[[]int64](e.env, "SELECT coalesce(array_agg(number ORDER BY n), '{}') FROM ledger")
	require.NotEmpty(e.t, written)
	require.ElementsMatch(e.t, told, written)
	for i, number := range written[1:] {
		if number < written[i] {
			fallen = append(fallen, fmt.Sprintf("#%d after #%d", number, written[i]))
		}
	}
	return fallen
}
