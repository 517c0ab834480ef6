package main

import (
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestMigrateDownAsks(t *testing.T) { onEachDialect(t, testMigrateDownAsks) }

func testMigrateDownAsks(t *testing.T, m migrated) {
	run := func(typed string, args ...string) finished {
		t.Helper()
		return typing(t, typed, append(append([]string{"migrate"}, args...), m.flags...)...)
	}
	// The names of the schema or database and its server, as the prompt prints them.
	what, kind, address := m.place, "database", ""
	if config, err := pgx.ParseConfig(m.flags[1]); m.flags[0] == "--postgres" {
		require.NoError(t, err)
		what, kind = what+` of database "`+config.Database+`"`, "schema"
		address = strings.Split(strings.Split(m.flags[1], "@")[1], "/")[0]
	} else {
		config, err := mysql.ParseDSN(m.flags[1])
		require.NoError(t, err)
		address = config.Addr
	}
	prompt := "Type the " + kind + "'s name to go on: "
	require.Zero(t, run("", "up").status)
	for name, c := range map[string]struct {
		typed string
		args  []string
	}{
		"nothing is typed":          {"", nil},
		"yes is typed":              {"yes\n", nil},
		"another name is typed":     {m.name[1:] + "\n", nil},
		"another name is in a flag": {m.name + "\n", []string{"--confirm", strings.ToUpper(m.name)}},
	} {
		done := run(c.typed, append([]string{"down"}, c.args...)...)
		require.Equal(t, 2, done.status, name)
		require.Empty(t, done.out, name)
		require.Contains(t, done.err, "nothing was changed: ", name)
		require.Equal(t, c.typed == "", strings.Contains(done.err, prompt+"\nfencepost: "), "the prompt's line ends: %s", name)
		require.Zero(t, run("", "status").status, name)
	}
	done := run(m.name+"\n", "down")
	require.Zero(t, done.status, done.err)
	require.Equal(t, each(reversed(m.names), "removed  ", ""), done.out)
	require.Equal(t, "This removes Fencepost's tables from "+what+" at "+address+".\n"+
		"All marks are lost: tokens that were refused before would be admitted again. Stop all writers first.\n"+prompt, done.err)
}
