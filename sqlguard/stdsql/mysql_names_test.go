package stdsql_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// Names are bytes, whatever the collations and the connection's character set.
func TestMySQLNamesThatCollationsTakeForTheSame(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	run(t, db, "CREATE TABLE twin (resource VARCHAR(200) PRIMARY KEY, holder VARCHAR(200))")
	run(t, db, "INSERT INTO twin VALUES ('account/42', 'worker-A')")
	const same = "SELECT count(*) FROM twin WHERE resource = 'ACCOUNT/42 ' AND holder = 'Worker-a'"
	require.Equal(t, 1, one[int](t, db, same), "the twin must take the one for the other")

	db.claim(t, tok(33, "worker-A"))
	for _, settings := range []string{"", "?charset=latin1", "?charset=utf8mb3", "?interpolateParams=true", "?clientFoundRows=true", "?sql_mode=%27ANSI,NO_BACKSLASH_ESCAPES%27"} {
		g := db.over(connect(t, "mysql", db.dsn+settings))
		for _, holder := range []string{"Worker-a", "worker-A ", "wörker-A"} {
			ctx := holding(t, 33, holder)
			require.ErrorIs(t, g.Update(ctx, account, add(ctx, 1)), guard.ErrCollision, "%s %s", settings, holder)
		}
		for i, name := range []string{"ACCOUNT/42", "account/42 ", "größe", "😀"} {
			tok := token.Token{Resource: name, Number: int64(i + 1), Holder: name}
			ctx := token.NewContext(t.Context(), tok)
			require.NoError(t, g.Update(ctx, name, add(ctx, 1)), "%s %s", settings, name)
			tok.Holder = "another"
			var stale *guard.StaleError
			require.ErrorAs(t, g.Admit(ctx, tok), &stale)
			require.Equal(t, guard.Mark{Number: tok.Number, Holder: name}, stale.Mark, settings)
		}
	}
	require.Equal(t, 5, one[int](t, db, "SELECT count(*) FROM fencepost_marks"))
}

// hazard G6
func TestMySQLARowThatDidNotChangeIsNotMissing(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	db.claim(t, tok(33, "a"))
	result, err := db.ExecContext(t.Context(), "UPDATE fencepost_marks SET number = 33 WHERE number <= 33 AND holder = 'a'")
	require.NoError(t, err)
	rows, err := result.RowsAffected()
	require.NoError(t, err)
	require.Zero(t, rows, "the twin, which counts rows, must take its own mark for somebody else's")
	for range 2 {
		db.claim(t, tok(33, "a"))
		ctx := holding(t, 33, "a")
		require.NoError(t, db.update(ctx, add(ctx, 10)))
	}
	require.Equal(t, 120, balance(t, db))
}
