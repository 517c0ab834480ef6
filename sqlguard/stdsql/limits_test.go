package stdsql_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
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
		for _, err := range []error{db.update(ctx, nothing), db.guard().Admit(ctx, tok(33, "a"))} {
			require.ErrorContains(t, err, "what package migrations creates")
			require.False(t, guard.Refusal(err), "a guard without marks refuses nobody, and admits nobody")
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

func TestWhoWaitsForAConnectionCanLeave(t *testing.T) {
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
