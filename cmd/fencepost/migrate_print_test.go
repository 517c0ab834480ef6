package main

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
)

func TestMigratePrint(t *testing.T) {
	t.Parallel()
	for dialect, set := range map[string]migrations.Set{
		"postgres": {}, "mysql": {Dialect: migrations.MySQL}, "sqlite": {Dialect: migrations.SQLite},
	} {
		script, err := set.SQL()
		require.NoError(t, err)
		require.Equal(t, finished{out: script}, without(execute(t, "migrate", "print", "--dialect", dialect)))
	}
	script, err := migrations.Set{Dialect: migrations.MySQL}.SQL()
	require.NoError(t, err)
	require.Equal(t, finished{out: script}, without(execute(t, "migrate", "print", "--mysql", "u@tcp(nowhere)/db")))
	script, err = migrations.Set{Schema: "of mine"}.SQL()
	require.NoError(t, err)
	require.Equal(t, finished{out: script}, without(execute(t, "migrate", "print", "--schema", "of mine")))
	require.Equal(t, finished{out: script}, without(execute(t, "migrate", "print", "--schema", "of mine", "--postgres", "postgres://nowhere")))
	require.Equal(t, 2, execute(t, "migrate", "print", "--dialect", "sqlite", "--schema", "x").status)

	// If the printed script has created the schema, up and down refuse it, and only check
	// accepts it.
	server := testenv.Database(t)
	db, err := sql.Open("pgx", server)
	require.NoError(t, err)
	defer db.Close()
	script, err = migrations.Set{}.SQL()
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), script)
	require.NoError(t, err)
	for command, status := range map[string]int{"up": 2, "down --confirm fencepost": 2, "status": 1, "check": 0} {
		done := execute(t, append(strings.Fields("migrate "+command), "--postgres", server)...)
		require.Equal(t, status, done.status, command)
		require.Equal(t, status == 2, strings.Contains(done.err, "were not applied by Up"), command)
		require.Equal(t, command == "status", done.out != "", command)
	}
	done := execute(t, "migrate", "status", "--postgres", server)
	require.Empty(t, done.err)
	require.Equal(t, `wrong: migrate up has not made the tables of schema "fencepost": there is no table fencepost_migrations, `+
		"and version() is 10: apply new versions with the tool that made them, and use migrate check\n", done.out)
}

func without(done finished) finished {
	done.temp = ""
	return done
}
