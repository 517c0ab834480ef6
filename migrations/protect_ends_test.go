package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

const write42 = "UPDATE fence.accounts SET writer = 'x' WHERE id = 42"

// hazard G24
func TestAdmissionForAProtectedTableEnds(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	ctx := t.Context()
	require.NoError(t, f.admit(ctx, f, "account/42", 5, "a"))
	const admit = "SELECT fence.admit('account/42', 5, 'a')"
	for name, c := range map[string]struct {
		texts   []string
		refused bool
	}{
		"with its transaction, though the session goes on":   {[]string{admit, "COMMIT", "BEGIN"}, true},
		"also where it is rolled back":                       {[]string{admit, "ROLLBACK", "BEGIN"}, true},
		"with its savepoint that is rolled back":             {[]string{"SAVEPOINT a", admit, "ROLLBACK TO a"}, true},
		"with the one around it":                             {[]string{"SAVEPOINT a", "SAVEPOINT b", admit, "RELEASE b", "ROLLBACK TO a"}, true},
		"with the block of PL/pgSQL whose EXCEPTION ran":     {[]string{"DO $$ BEGIN PERFORM fence.admit('account/42', 5, 'a'); RAISE 'x'; EXCEPTION WHEN OTHERS THEN END $$"}, true},
		"not with its savepoint that is released":            {[]string{"SAVEPOINT a", admit, "RELEASE a"}, false},
		"not with a later savepoint that is rolled back":     {[]string{admit, "SAVEPOINT a", "ROLLBACK TO a"}, false},
		"nor is one lost that was made again inside it":      {[]string{admit, "SAVEPOINT a", admit, "ROLLBACK TO a"}, false},
		"not with a block of PL/pgSQL that went well":        {[]string{"DO $$ BEGIN PERFORM fence.admit('account/42', 5, 'a'); EXCEPTION WHEN OTHERS THEN END $$"}, false},
		"not where the session's settings are reset to none": {[]string{admit, "SELECT set_config('search_path', '', true)"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := f.conn(t)
			for _, text := range append([]string{"BEGIN"}, c.texts...) {
				run(t, f, conn, text)
			}
			err := f.exec(t.Context(), conn, write42)
			if c.refused {
				unguarded(t, err)
			} else {
				require.NoError(t, err)
			}
			run(t, f, conn, "ROLLBACK")
		})
	}
}

func TestProtectedTableUnderEveryIsolation(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	ctx := t.Context()
	require.NoError(t, f.admit(ctx, f, "account/42", 5, "a"))
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		tx := f.begin(t, level)
		run(t, f, tx, "SAVEPOINT a")
		unguarded(t, f.exec(ctx, tx, write42))
		run(t, f, tx, "ROLLBACK TO a")
		require.NoError(t, f.admit(ctx, tx, "account/42", 5, "a"))
		run(t, f, tx, write42)
		require.NoError(t, tx.Commit(ctx))
	}
}

// Another schema's marks say nothing about this one's.
func TestProtectedTableKnowsItsSchema(t *testing.T) {
	t.Parallel()
	f, other := newAccounts(t), newFence(t)
	tx := f.begin(t, pgx.ReadCommitted)
	require.NoError(t, other.admit(t.Context(), tx, "account/42", 5, "a"))
	unguarded(t, f.exec(t.Context(), tx, write42))
	require.NoError(t, tx.Rollback(t.Context()))

	for _, call := range []string{"protect($1, 'x')", "unprotect($1)", "bypass($1, 'x')"} {
		err := f.exec(t.Context(), f, `SELECT "`+other.schema+`".`+call, f.schema+".accounts")
		require.Equal(t, "55006", code(err), call)
		require.ErrorContains(t, err, f.schema+".accounts is protected by schema "+f.schema)
	}
	require.Zero(t, get[int](t, other, f, "SELECT count(*) FROM fence.protected()"))
	require.Equal(t, 1, get[int](t, f, f, "SELECT count(*) FROM fence.protected()"))
}
