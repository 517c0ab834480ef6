package stdsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

func TestAGuardThatCannotWork(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		ctx := holding(t, 33, "a")
		nothing := func(*sql.Tx) error { t.Error("fn must not run"); return nil }
		require.EqualError(t, db.over(nil).Update(ctx, account, nothing), "stdsql: Guard has no DB")
		g := db.guard()
		g.Tx = &sql.TxOptions{ReadOnly: true}
		require.EqualError(t, g.Update(ctx, account, nothing), "stdsql: Guard.Tx is read only: an admission is a write")

		run(t, db, "DROP TABLE "+db.marks+map[bool]string{true: " CASCADE"}[db.dialect == stdsql.Postgres])
		if db.dialect == stdsql.Postgres {
			run(t, db, `DROP SCHEMA "`+db.schema+`" CASCADE`)
		}
		reportOnly, _ := db.reportOnly(t)
		_, mintErr := db.guard().Mint(ctx, account, "a")
		for _, err := range []error{
			db.update(ctx, nothing), db.guard().Admit(ctx, tok(33, "a")), mintErr, reportOnly.Update(ctx, account, nothing),
		} {
			require.ErrorContains(t, err, "run migrations.Up")
			require.False(t, guard.IsRefusal(err), "a guard without marks neither refuses nor admits")
		}
	})
}

func TestADialectThatIsNone(t *testing.T) {
	t.Parallel()
	ctx := holding(t, 33, "a")
	for text, g := range map[string]*stdsql.Guard{
		"stdsql: unknown dialect Dialect(7)":                              {Dialect: 7},
		"stdsql: only PostgreSQL has schemas: Guard.Schema must be empty": {Dialect: stdsql.MySQL, Schema: "x"},
	} {
		require.EqualError(t, g.Update(ctx, account, nil), text)
		require.EqualError(t, g.Admit(ctx, tok(33, "a")), text)
		require.EqualError(t, g.Join(ctx, wrapped{}, account), text)
	}
	require.Equal(t, []string{"postgres", "mysql", "sqlite"}, []string{stdsql.Postgres.String(), stdsql.MySQL.String(), stdsql.SQLite.String()})
}

func TestNothingIsAppliedOverAClosedPool(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		closed := db.connect(t)
		require.NoError(t, closed.Close())
		g, ctx := db.over(closed), holding(t, 33, "a")
		for _, err := range []error{g.Update(ctx, account, add(ctx, 10)), g.Admit(ctx, tok(33, "a"))} {
			require.ErrorContains(t, err, "database is closed")
			require.NotErrorIs(t, err, guard.ErrUnknown)
		}
		require.Zero(t, db.mark(t, account))
	})
}

func TestWaitingForAConnectionEndsWithTheContext(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		db.claim(t, tok(33, "a"))
		pool := db.connect(t)
		pool.SetMaxOpenConns(1)
		only, err := pool.Conn(t.Context())
		require.NoError(t, err)
		ctx, leave := context.WithCancel(holding(t, 33, "a"))
		result := make(chan error, 1)
		go func() { result <- db.over(pool).Update(ctx, account, add(ctx, 10)) }()
		leave()
		err = <-result
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, guard.ErrUnknown)
		require.NoError(t, only.Close())
		require.Equal(t, 100, balance(t, db))
	})
}

// Each name takes entries in a lock table that all sessions of the server share: see
// sqlguard's test of the same name.
func TestStressTheMostResourcesOfOneCall(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	names, ctx := make([]string, 1001), t.Context()
	for i := range names {
		names[i] = fmt.Sprintf("many/%d", i)
		ctx = token.NewContext(ctx, token.Token{Resource: names[i], Number: 33, Holder: "a"})
	}
	const over = "stdsql: nothing was sent: 1001 resources in one call, the limit on PostgreSQL is 1000"
	require.EqualError(t, db.guard().UpdateAll(ctx, names, nil), over)
	require.EqualError(t, inTx(t, db, func(tx *sql.Tx) error { return db.guard().JoinAll(ctx, tx, names) }), over)
	require.Zero(t, one[int](t, db, "SELECT count(*) FROM marks"))
	require.NoError(t, db.guard().UpdateAll(ctx, append(names[:1000], names[:1000]...), func(*sql.Tx) error { return nil }))
}

// hazard G13
func TestNamesAreBytes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		names := []string{
			"x", "X", "x ", " x", "größe", "grosse", "grösse", "ключ/1", "鍵", "😀", "a'b", `a"b`, `a\b`, `a\'b`, "a`b", "a;b", "a--b", "%", "_",
			"'; DROP TABLE accounts; --", "{resource}", "$1", "?", "?1", ":x", "@x", "\u00a0", "e\u0301", "é", strings.Repeat("x", token.MaxNameBytes), strings.Repeat("ß", token.MaxNameBytes/2),
		}
		g := db.guard()
		for i, name := range names {
			tok := token.Token{Resource: name, Number: int64(i + 1), Holder: name}
			ctx := token.NewContext(t.Context(), tok)
			require.NoError(t, g.Update(ctx, name, add(ctx, 1)), "%q", name)
			require.NoError(t, g.Admit(ctx, tok), "%q", name)
			require.NoError(t, inTx(t, db, func(tx *sql.Tx) error { return g.Join(ctx, tx, name) }), "%q", name)

			stale := tok
			stale.Number--
			if stale.Number > 0 {
				var refusal *guard.StaleError
				require.ErrorAs(t, g.Update(token.NewContext(ctx, stale), name, add(ctx, 1)), &refusal, "%q", name)
				require.Equal(t, guard.Mark{Number: tok.Number, Holder: name}, refusal.Mark)
			}
			peer := tok
			peer.Holder = "another"
			require.ErrorIs(t, g.Update(token.NewContext(ctx, peer), name, add(ctx, 1)), guard.ErrCollision, "%q", name)
		}
		require.Equal(t, len(names), one[int](t, db, "SELECT count(*) FROM "+db.marks), "one mark each")
		require.Equal(t, 100+len(names), balance(t, db))
	})
}

func TestTokensThatAreIncompleteOrTooLong(t *testing.T) {
	t.Parallel()
	const most = 999_999_999_999_999
	onEach(t, func(t *testing.T, db *database) {
		g := db.guard()
		for _, tok := range []token.Token{
			{}, tok(0, "a"), tok(-1, "a"), tok(1, ""), tok(most+1, "a"), {Number: 1, Holder: "a"},
			tok(1, "a\nb"), tok(1, "\x00"), tok(1, "\xff"), {Resource: "a\tb", Number: 1, Holder: "a"},
			tok(1, strings.Repeat("x", token.MaxNameBytes+1)), {Resource: strings.Repeat("x", token.MaxNameBytes+1), Number: 1, Holder: "a"},
		} {
			ctx := token.NewContext(t.Context(), tok)
			require.ErrorIs(t, g.Admit(ctx, tok), token.ErrInvalid, "%+v", tok)
			require.ErrorIs(t, g.Update(ctx, tok.Resource, add(ctx, 1)), token.ErrInvalid, "%+v", tok)
			require.ErrorIs(t, inTx(t, db, func(tx *sql.Tx) error { return g.Join(ctx, tx, tok.Resource) }), token.ErrInvalid, "%+v", tok)
		}
		require.Zero(t, one[int](t, db, "SELECT count(*) FROM "+db.marks))

		last := holding(t, most, "a")
		require.NoError(t, g.Update(last, account, add(last, 1)))
		require.Equal(t, guard.Mark{Number: most, Holder: "a"}, db.mark(t, account))
		before := holding(t, most-1, "a")
		require.ErrorIs(t, g.Update(before, account, add(before, 1)), guard.ErrStale, "fifteen digits, to the last of them")
		require.Equal(t, 101, balance(t, db))
	})
}

// idleBounds has, for each server, the setting of a session that bounds its idle time, a
// query of the session, and values of IdleTimeout with the setting before and inside a
// transaction.
var idleBounds = map[stdsql.Dialect]struct {
	setting, show, session string
	cases                  []idleBound
}{
	stdsql.Postgres: {"idle_in_transaction_session_timeout", "SHOW idle_in_transaction_session_timeout", "SELECT pg_backend_pid()", []idleBound{
		{0, "0", "5s"}, {0, "1min", "5s"}, {time.Hour, "50min", "50min"}, {time.Minute, "90min", "1min"},
		{20*time.Second + time.Microsecond, "0", "20001ms"}, {-1, "2h", "2h"}, {1 << 62, "2h", "2h"},
	}},
	stdsql.MySQL: {"wait_timeout", "SELECT @@SESSION.wait_timeout", "SELECT CONNECTION_ID()", []idleBound{
		{0, "28800", "5"}, {time.Hour, "1800", "1800"}, {time.Hour, "5400", "3600"},
		{20*time.Second + time.Microsecond, "28800", "21"}, {-1, "7200", "7200"}, {1 << 62, "7200", "7200"},
	}},
}

type idleBound struct {
	idle           time.Duration
	before, inside string
}

func TestIdleBound(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, db *database) {
		db.claim(t, tok(33, "a"))
		bounds := idleBounds[db.dialect]
		for _, c := range bounds.cases {
			pool := connect(t, db.driver, db.setting(t, bounds.setting, c.before))
			pool.SetMaxOpenConns(1)
			g, ctx, zombie := db.over(pool), holding(t, 33, "a"), holding(t, 32, "a")
			g.IdleTimeout = c.idle
			oops := errors.New("oops")
			for name, attempt := range map[string]struct {
				run  func() error
				want error
			}{
				"applied": {func() error {
					inside := ""
					err := g.Update(ctx, account, func(tx *sql.Tx) error { return tx.QueryRowContext(ctx, bounds.show).Scan(&inside) })
					if err == nil {
						require.Equal(t, c.inside, inside)
					}
					return err
				}, nil},
				"failed":  {func() error { return g.Update(ctx, account, func(*sql.Tx) error { return oops }) }, oops},
				"refused": {func() error { return g.Update(zombie, account, add(zombie, 1)) }, guard.ErrStale},
				"claimed": {func() error { return g.Admit(ctx, tok(33, "a")) }, nil},
				"panicking": {func() (err error) {
					defer func() {
						if recover() == oops {
							err = oops
						}
					}()
					return g.Update(ctx, account, func(*sql.Tx) error { panic(oops) })
				}, oops},
			} {
				session := 0
				require.ErrorIs(t, notEvicted(func() error {
					session = one[int](t, pool, bounds.session)
					return attempt.run()
				}), attempt.want, name)
				require.Equal(t, c.before, one[string](t, pool, bounds.show), "%s: it ends with the transaction", name)
				require.Equal(t, session, one[int](t, pool, bounds.session), "%s: on the same connection", name)
			}
		}
	})
}
