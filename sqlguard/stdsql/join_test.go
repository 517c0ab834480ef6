package stdsql_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// wrapped is a transaction in the wrapper of a library.
type wrapped struct{ querier }

// nesting is a transaction, or a pool, that can begin others.
type nesting struct{ querier }

func (nesting) BeginTx(context.Context) (*nesting, error) { return nil, nil }

func TestJoin(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		g := db.over(nil) // DB is not used
		db.claim(t, tok(33, "a"))
		ctx := holding(t, 33, "a")

		require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
			require.NoError(t, g.Join(ctx, tx, account))
			require.NoError(t, g.Join(ctx, wrapped{tx}, account), "what wraps a transaction")
			return add(ctx, 10)(tx)
		}))
		require.Equal(t, 110, balance(t, db))
		require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, db.mark(t, account))

		for ctx, want := range map[context.Context]error{
			holding(t, 32, "b"): guard.ErrStale, holding(t, 33, "b"): guard.ErrCollision,
			t.Context(): token.ErrMissing, holding(t, 33, ""): token.ErrInvalid,
		} {
			require.ErrorIs(t, inTx(t, db, func(tx *sql.Tx) error { return g.Join(ctx, tx, account) }), want)
		}
		require.Error(t, inTx(t, db, func(tx *sql.Tx) error { return g.JoinAll(ctx, tx, nil) }), "no resource")
	})
}

func TestJoinUnderATokenThatWasNotClaimed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		g, ctx := db.over(nil), holding(t, 33, "a")
		err := inTx(t, db, func(tx *sql.Tx) error {
			if err := g.Join(ctx, tx, account); err != nil {
				return err
			}
			return add(ctx, 10)(tx)
		})
		if db.dialect != stdsql.MySQL {
			require.NoError(t, err)
			require.Equal(t, int64(33), db.mark(t, account).Number)
			require.ErrorIs(t, inTx(t, db, func(tx *sql.Tx) error {
				newer := holding(t, 34, "b")
				require.NoError(t, g.Join(newer, tx, account))
				return sql.ErrNoRows
			}), sql.ErrNoRows)
			require.Equal(t, int64(33), db.mark(t, account).Number, "a raise ends with its transaction")
			return
		}
		require.ErrorIs(t, err, guard.ErrClaimFirst)
		require.False(t, guard.IsRefusal(err))
		require.ErrorContains(t, err, "admit account/42#33: the token has not raised the mark yet")
		require.Zero(t, db.mark(t, account))
		db.claim(t, tok(33, "a"))
		require.NoError(t, inTx(t, db, func(tx *sql.Tx) error { return g.Join(ctx, tx, account) }))
	})
}

// hazard G1
func TestJoinRefusesWhatIsNoTransaction(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		zombie, successor := holding(t, 33, "a"), holding(t, 34, "b")
		g := db.guard()
		db.claim(t, tok(33, "a"))

		twin := db.guard()
		if db.dialect == stdsql.SQLite {
			require.ErrorIs(t, g.Join(zombie, wrapped{db}, account), guard.ErrUnfenced, "the probe finds no transaction")
			twin.DangerouslyTrustEngine = true
		}
		require.NoError(t, twin.Join(zombie, wrapped{db}, account), "hidden in a wrapper, the pool is the twin")
		require.NoError(t, g.Update(successor, account, add(successor, 50)))
		require.NoError(t, write(zombie, db, 0))
		require.Equal(t, 0, balance(t, db), "the twin must accept the stale write")

		for name, tx := range map[string]stdsql.Tx{"*sql.DB": db.DB, "*sql.Conn": conn, "stdsql_test.nesting": nesting{db}} {
			require.EqualError(t, g.Join(successor, tx, account),
				"stdsql: an admission needs a transaction: "+name+" can begin one, "+
					"hand over what it began, or the *sql.Tx inside it if it is a transaction that nests others")
			_, err := g.MintTx(t.Context(), tx, account, "c")
			require.ErrorContains(t, err, "stdsql: an admission needs a transaction: "+name)
		}
		require.EqualError(t, g.Join(successor, nil, account), "stdsql: an admission needs a transaction, not nil")
	})
}

// hazard G29
func TestAnIgnoredErrorOfJoinWritesNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		db.claim(t, tok(33, "a"))
		gone, leave := context.WithCancel(holding(t, 33, "a"))
		leave()
		of := func(ctx context.Context, resources ...string) func(stdsql.Tx) error {
			return func(tx stdsql.Tx) error { return db.guard().JoinAll(ctx, tx, resources) }
		}
		failing := map[string]func(tx stdsql.Tx) error{
			"no resource":         of(holding(t, 33, "a")),
			"no token":            of(t.Context(), account),
			"one of two tokens":   of(holding(t, 33, "a"), account, "account/43"),
			"an incomplete token": of(holding(t, 33, ""), account),
			"stale":               of(holding(t, 32, "z"), account),
			"the caller has left": of(gone, account),
			"an unknown dialect":  func(tx stdsql.Tx) error { return (&stdsql.Guard{Dialect: 99}).Join(holding(t, 33, "a"), tx, account) },
			"a hook panicked": func(tx stdsql.Tx) (err error) {
				g := db.guard()
				g.Hooks.Refused = func(context.Context, error) { panic("boo") }
				defer func() { err = fmt.Errorf("%v", recover()) }()
				return g.Join(t.Context(), tx, account)
			},
		}
		for name, join := range failing {
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			require.Error(t, join(tx), name)
			require.Error(t, write(t.Context(), tx, 0), name)
			require.Error(t, tx.Commit(), name)
			require.Equal(t, 100, balance(t, db), name)

			var joined error
			err = db.update(holding(t, 33, "a"), func(tx *sql.Tx) error {
				joined = join(tx)
				_ = write(t.Context(), tx, 0)
				return nil
			})
			require.Error(t, joined, name)
			require.Error(t, err, "%s, inside an Update", name)
			require.NotErrorIs(t, err, guard.ErrUnknown, name)
			require.Equal(t, 100, balance(t, db), "%s, inside an Update", name)
		}

		err := inTx(t, db, func(tx *sql.Tx) error {
			require.ErrorIs(t, db.guard().Join(t.Context(), wrapped{tx}, account), token.ErrMissing)
			return write(t.Context(), tx, 1)
		})
		if db.dialect == stdsql.Postgres {
			require.Error(t, err, "the server refuses what comes")
			require.Equal(t, 100, balance(t, db))
		} else {
			require.NoError(t, err, "a wrapper without Rollback still takes writes: see Join")
			require.Equal(t, 1, balance(t, db))
		}

		twin := db.guard()
		twin.DangerouslyReportOnly, twin.Hooks.Reported = true, func(context.Context, error) {}
		require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
			require.Error(t, twin.JoinAll(holding(t, 32, "z"), tx, nil))
			return write(t.Context(), tx, 0)
		}))
		require.Equal(t, 0, balance(t, db), "the twin, in report-only mode, must accept the stale write")
	})
}

// nestable is a transaction that can begin nested ones, like bun.Tx: it writes parameters
// into the text, and its Rollback only rolls back to a savepoint.
type nestable struct {
	*sql.Tx
	place string
}

func (n nestable) BeginTx(ctx context.Context, _ *sql.TxOptions) (nestable, error) {
	_, err := n.Tx.ExecContext(ctx, "SAVEPOINT inner_place")
	return nestable{n.Tx, "inner_place"}, err
}

func (n nestable) ExecContext(ctx context.Context, query string, _ ...any) (sql.Result, error) {
	return n.Tx.ExecContext(ctx, query)
}

func (n nestable) QueryRowContext(ctx context.Context, query string, _ ...any) *sql.Row {
	return n.Tx.QueryRowContext(ctx, query)
}

func (n nestable) Rollback() error {
	if n.place == "" {
		return n.Tx.Rollback()
	}
	_, err := n.Tx.ExecContext(context.Background(), "ROLLBACK TO "+n.place)
	return err
}

type around struct{ nestable }

type behind struct{ stdsql.Tx }

func TestJoinUsesTheTransactionThatIsEmbedded(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		db.claim(t, tok(33, "a"))
		ctx := holding(t, 33, "a")
		for name, wrap := range map[string]func(n nestable) stdsql.Tx{
			"a value":                   func(n nestable) stdsql.Tx { return n },
			"a pointer":                 func(n nestable) stdsql.Tx { return &n },
			"a wrapper":                 func(n nestable) stdsql.Tx { return around{n} },
			"a pointer to a wrapper":    func(n nestable) stdsql.Tx { return &around{n} },
			"a wrapper of an interface": func(n nestable) stdsql.Tx { return behind{n} },
		} {
			before := balance(t, db)
			require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
				require.NoError(t, db.guard().Join(ctx, wrap(nestable{Tx: tx}), account), name)
				return add(ctx, 10)(tx)
			}))
			require.Equal(t, before+10, balance(t, db), name)
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			require.ErrorIs(t, db.guard().Join(holding(t, 32, "z"), wrap(nestable{Tx: tx}), account), guard.ErrStale, name)
			require.Error(t, write(ctx, tx, 0), name)
			require.Error(t, tx.Commit(), name)
			require.Equal(t, before+10, balance(t, db), name)
		}
		for name, tx := range map[string]stdsql.Tx{
			"a nil *sql.Tx": (*sql.Tx)(nil), "nothing in it": nestable{}, "a nil pointer": (*nestable)(nil), "a pointer to nothing": &around{},
		} {
			require.EqualError(t, db.guard().Join(ctx, tx, account), "stdsql: an admission needs a transaction, not nil", name)
		}
	})
}

// hazard G29
func TestARefusalEndsTheTransactionAndNotASavepoint(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		db.claim(t, tok(34, "b"))
		late := holding(t, 33, "a")
		begin := func() (outer, inner nestable) {
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			outer = nestable{Tx: tx}
			inner, err = outer.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			return outer, inner
		}
		outer, inner := begin()
		require.ErrorIs(t, db.guard().Join(late, inner, account), guard.ErrStale)
		require.Error(t, write(late, outer.Tx, 0), "the error is ignored")
		require.Error(t, outer.Tx.Commit())
		require.Equal(t, 100, balance(t, db))

		outer, inner = begin()
		require.NoError(t, inner.Rollback(), "the twin goes back to the savepoint")
		require.NoError(t, write(late, outer.Tx, 0))
		require.NoError(t, outer.Tx.Commit())
		require.Equal(t, 0, balance(t, db), "the twin must write")
	})
}
