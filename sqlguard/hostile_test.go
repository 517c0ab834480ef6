package sqlguard_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// Each hostile input goes through every door.

// quotingModes are one mode in which the server gets names and values separately, and one
// in which pgx combines them.
var quotingModes = []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol}

// hazard G13
func TestHostileResourcesThroughEveryDoor(t *testing.T) {
	t.Parallel()
	inEnv(t, "the naive way executes the name", func(t *testing.T, e *env) {
		name := "x', 33, 'h33'); UPDATE " + e.schema + ".accounts SET writer = 'injected'; --"
		_, err := e.pool.Exec(t.Context(), "SELECT "+e.schema+".admit('"+name+"', 33, 'h33')")
		require.NoError(t, err)
		require.Equal(t, "injected", e.writer(), "the twin must be injected")
	})
	long := strings.Repeat("é", 100) // 200 bytes, the most there may be
	for _, mode := range quotingModes {
		for _, name := range []string{`x', 33, 'h33'); DROP TABLE accounts; --`, `\'; --`, "$1", "@writer", "%s", "größe/🙂 \u200b", `"`, long} {
			inEnv(t, fmt.Sprintf("%.40q in mode %s", name, mode), func(t *testing.T, e *env) {
				pool, _ := wired(t, 1, inMode(mode))
				of := func(number int64) context.Context {
					return token.NewContext(e.bounded(), token.Token{Resource: name, Number: number, Holder: name})
				}
				for door, write := range doorsTo(e, e.by(pool), name) {
					e.exec("DELETE FROM marks")
					require.NoError(t, write(of(34), name), door)
					require.Equal(t, name, e.writer(), door)
					require.Equal(t, "34 "+name, e.mark(name), door)
					var stale *guard.StaleError
					require.ErrorAs(t, write(of(33), "stale"), &stale, door)
					require.Equal(t, guard.Mark{Number: 34, Holder: name}, stale.Mark, door)
					require.Equal(t, name, e.writer(), door)
				}
				require.Equal(t, 1, query[int](e, "SELECT count(*) FROM marks"))
				_, err := e.by(pool).Mint(t.Context(), name, name)
				require.NoError(t, err)
			})
		}
	}
}

// hazard G16
func TestWhatIsNoTokenThroughEveryDoor(t *testing.T) {
	t.Parallel()
	inEnv(t, "without holders, two processes pass for one", func(t *testing.T, e *env) {
		e.exec("ALTER TABLE accounts ADD token bigint NOT NULL DEFAULT 0")
		for _, writer := range []string{"A", "B", "A again"} {
			e.exec("UPDATE accounts SET writer = $1, token = 33 WHERE id = 42 AND token <= 33", writer)
			require.Equal(t, writer, e.writer(), "the twin must let both write")
		}
	})
	e := newEnv(t)
	e.admitted(33)
	var toks []token.Token
	for _, name := range []string{"", strings.Repeat("x", 201), strings.Repeat("x", 1<<20), "a\nb", "a\x00", "a\x7f", "\u0085", "\xff", "a\tb"} {
		toks = append(toks, token.Token{Resource: name, Number: 34, Holder: "h34"}, token.Token{Resource: resource, Number: 34, Holder: name})
	}
	for _, number := range []int64{0, -1, token.MaxNumber + 1, math.MaxInt64, math.MinInt64} {
		toks = append(toks, token.Token{Resource: resource, Number: number, Holder: "h34"})
	}
	reporting := e.with(func(g *sqlguard.Guard) { g.DangerouslyReportOnly = true })
	refused := 0
	g := e.with(func(g *sqlguard.Guard) { g.Hooks.Refused = func(context.Context, error) { refused++ } })
	for _, tok := range toks {
		refused = 0
		ctx := token.NewContext(e.bounded(), tok)
		what := fmt.Sprintf("%.20q %d %.20q", tok.Resource, tok.Number, tok.Holder)
		all := doorsTo(e, g, tok.Resource)
		for door, write := range all {
			err := write(ctx, "no token")
			require.ErrorIs(t, err, token.ErrInvalid, "%s: %s", door, what)
			require.Empty(t, outcomes(err), "%s: %s", door, what)
		}
		require.ErrorIs(t, g.Admit(ctx, tok), token.ErrInvalid, what)
		require.Len(t, all, refused, "all but the door that looks for itself, and Admit: %s", what)
		require.NoError(t, reporting.Admit(ctx, tok), what)
		if tok.Number == 34 { // Mint creates its own holder
			_, err := e.guard.Mint(ctx, tok.Resource, tok.Holder)
			require.ErrorIs(t, err, token.ErrInvalid, what)
		}
	}
	require.Empty(t, e.writer())
	require.Equal(t, 1, query[int](e, "SELECT count(*) FROM marks"))
	require.Equal(t, "33 h33", e.mark(resource))
}

func TestTheLastNumberThroughEveryDoor(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for door, write := range doors(e, e.guard) {
		e.exec("DELETE FROM marks")
		require.NoError(t, write(e.as(token.MaxNumber-1, "b"), "last but one"), door)
		require.NoError(t, write(e.as(token.MaxNumber, "c"), "last"), door)
		require.NoError(t, write(e.as(token.MaxNumber, "c"), "last again"), door)
		require.ErrorIs(t, write(e.as(token.MaxNumber, "d"), "impostor"), guard.ErrCollision, door)
		require.ErrorIs(t, write(e.as(token.MaxNumber-1, "b"), "late"), guard.ErrStale, door)
		require.Equal(t, "last again", e.writer(), door)
	}
	_, err := e.guard.Mint(t.Context(), resource, "e")
	require.ErrorIs(t, err, token.ErrExhausted)
	require.Empty(t, outcomes(err))
	require.Equal(t, fmt.Sprintf("%d c", token.MaxNumber), e.mark(resource))
}

// If nothing can be sent, the result is an ordinary error.
func TestNowhereToSendThroughEveryDoor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		db   func(t *testing.T, e *env) sqlguard.DB
		says string
	}{
		"a closed pool": {func(t *testing.T, _ *env) sqlguard.DB {
			pool, _ := wired(t, 1)
			pool.Close()
			return pool
		}, "closed pool"},
		"a closed connection": {func(t *testing.T, e *env) sqlguard.DB {
			conn, err := pgx.ConnectConfig(t.Context(), e.pool.Config().ConnConfig)
			require.NoError(t, err)
			require.NoError(t, conn.Close(t.Context()))
			return conn
		}, "conn closed"},
		"a pool's connection that has broken": {func(t *testing.T, _ *env) sqlguard.DB {
			pool, _ := wired(t, 1)
			conn := acquire(t, pool)
			require.NoError(t, conn.Conn().Close(t.Context()))
			return conn
		}, "conn closed"},
		"a pool that gets no connection": {func(t *testing.T, _ *env) sqlguard.DB {
			pool, arm := dropsReplies(t, "x", pgx.QueryExecModeExec, func() {})
			arm.Store(true)
			return pool
		}, "no server"},
		"a pool whose connections are all in use": {func(t *testing.T, _ *env) sqlguard.DB {
			pool, _ := wired(t, 1)
			acquire(t, pool)
			return pool
		}, "context deadline exceeded"},
		"a transaction that is over": {func(t *testing.T, e *env) sqlguard.DB {
			tx := e.open(pgx.TxOptions{})
			require.NoError(t, tx.Rollback(t.Context()))
			return tx
		}, "tx is closed"},
	} {
		inEnv(t, name, func(t *testing.T, e *env) {
			e.admitted(33)
			db := c.db(t, e)
			limit := ceiling
			if name == "a pool whose connections are all in use" {
				limit = 50 * time.Millisecond
			}
			for door, write := range doors(e, e.by(db)) {
				ctx, cancel := context.WithTimeout(e.ctx(33), limit)
				err := write(ctx, "x")
				cancel()
				if door == "Admit, then write" && name == "a transaction that is over" {
					require.ErrorContains(t, err, "use Join")
				} else {
					require.ErrorContains(t, err, c.says, door)
				}
				require.Empty(t, outcomes(err), "%s: %v", door, err)
				require.NotErrorIs(t, err, guard.ErrStale, door)
			}
			ctx, cancel := context.WithTimeout(e.bounded(), limit)
			defer cancel()
			var err error
			if tx, inside := db.(pgx.Tx); inside {
				_, err = e.guard.MintTx(ctx, tx, resource, "m")
			} else {
				_, err = e.by(db).Mint(ctx, resource, "m")
			}
			require.ErrorContains(t, err, c.says)
			require.Empty(t, outcomes(err))
			require.Empty(t, e.writer())
			require.Equal(t, "33 h33", e.mark(resource))
		})
	}
}
