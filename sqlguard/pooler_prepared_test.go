package sqlguard_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/sqlguard"
)

// pgx's default mode names what it has prepared. The names belong to a session,
// and a pooler that does not keep them for its clients, as PgBouncer does from
// 1.21 on where it is told to, gives them another session each time.
//
// hazard P8
func TestNamedStatementsBehindAPooler(t *testing.T) {
	t.Parallel()
	for name := range doors(&env{}, &sqlguard.Guard{}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, url := newEnv(t), testenv.PgBouncer(t)
			first, second := client(t, url, pgx.QueryExecModeCacheStatement, 1), client(t, url, pgx.QueryExecModeCacheStatement, 1)
			through := func(pool *pgxpool.Pool, writer string) error {
				return doors(e, e.with(func(g *sqlguard.Guard) { g.DB = pool }))[name](e.ctx(33), writer)
			}
			e.admitted(33)
			require.NoError(t, through(first, "first"), "a session for itself")
			refused := func(code string, err error) {
				t.Helper()
				require.Equal(t, code, outcomeCode(err), "%v", err)
				require.Empty(t, outcomes(err), "a plain error: nothing applied")
				require.Equal(t, "first", e.writer())
			}
			refused("42P05", through(second, "second")) // the name is taken in the session of the first one
			inEverySession(t, url, 1, func(context.Context, *pgx.Conn) {
				refused("26000", through(first, "again")) // that session is in use, and the next one has no such name
			})
		})
	}
}

// hazard P8
func TestManyClientsWithNamedStatementsBehindAPooler(t *testing.T) {
	t.Parallel()
	e, url := newEnv(t), testenv.PgBouncer(t)
	e.exec("CREATE TABLE ledger (op bigint)")
	e.admitted(33)
	g := e.with(func(g *sqlguard.Guard) { g.DB = client(t, url, pgx.QueryExecModeCacheStatement, clients) })
	ctx := e.ctx(33)
	var mu sync.Mutex
	codes, told := map[string]int{}, []int64{}
	var group sync.WaitGroup
	for c := range int64(clients) {
		group.Go(func() {
			for i := range int64(50) {
				op := 1000*c + i
				_, err := g.On(resource).Exec(ctx, e.sql("INSERT INTO ledger VALUES ($1)"), op)
				mu.Lock()
				if codes[outcomeCode(err)]++; err == nil {
					told = append(told, op)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	t.Logf("of %d writes: %v", clients*50, codes)
	require.Positive(t, codes["26000"])
	require.Equal(t, clients*50, codes[""]+codes["26000"]+codes["42P05"])
	require.ElementsMatch(t, told, query[[]int64](e, "SELECT coalesce(array_agg(op), '{}') FROM ledger"), "no other was applied")
}
