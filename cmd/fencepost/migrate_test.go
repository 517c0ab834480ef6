package main

import (
	"database/sql"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/migrations"
)

// files are those of package migrations, in their order.
func files(t *testing.T) []string {
	t.Helper()
	entries, err := migrations.FS.ReadDir("postgres")
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func reversed(names []string) []string {
	names = slices.Clone(names)
	slices.Reverse(names)
	return names
}

func each(names []string, before, after string) string {
	var lines strings.Builder
	for _, name := range names {
		lines.WriteString(before + name + after + "\n")
	}
	return lines.String()
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	server, names := testenv.Database(t), files(t)
	run := func(status int, out string, args ...string) {
		t.Helper()
		done := execute(t, append([]string{"migrate"}, append(args, "--postgres", server)...)...)
		require.Equal(t, status, done.status, done.err)
		require.Equal(t, out, done.out)
	}
	missing := each(names, "missing              ", "")
	absent := "wrong: schema \"fencepost\" is not there: apply the migrations, with fencepost migrate up\n"
	run(1, missing+absent, "status")
	run(1, absent, "check")
	run(0, "nothing to remove: no migration was applied in schema \"fencepost\"\n", "down", "--confirm", "fencepost")
	run(0, each(names, "", " is there"), "up")
	run(0, "nothing to do, at version 16\n", "up")
	run(0, "", "up", "--json")
	run(0, "", "check")

	done := execute(t, "migrate", "status", "--postgres", server)
	require.Zero(t, done.status, done.err)
	for i, line := range strings.Split(strings.TrimSpace(done.out), "\n") {
		at, err := time.Parse(time.DateTime, line[:19])
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), at, time.Hour)
		require.Equal(t, "  "+names[i], line[19:])
	}

	db, err := sql.Open("pgx", server)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "ALTER SEQUENCE fencepost.numbers CACHE 20")
	require.NoError(t, err)
	cache := "sequence fencepost.numbers has CACHE 20, so each session draws from a block of its own, and numbers fall: ALTER SEQUENCE fencepost.numbers CACHE 1"
	run(1, "wrong: "+cache+"\n", "check")
	run(1, `{"finding":"`+cache+`"}`+"\n", "check", "--json")

	run(0, each(reversed(names), "", " is gone"), "down", "--confirm", "fencepost")
	run(1, missing+"wrong: schema \"fencepost\" is at version 0, and this program needs 16: apply the migrations, with fencepost migrate up or whatever applied the others\n", "status")
}

func TestMigrateAsJSON(t *testing.T) {
	t.Parallel()
	server, names := testenv.Database(t), files(t)
	lines := func(args ...string) (lines []migration) {
		t.Helper()
		done := execute(t, append([]string{"migrate"}, append(args, "--json", "--schema", "of mine", "--postgres", server)...)...)
		require.Zero(t, done.status, done.err)
		for i, text := range strings.Split(strings.TrimSpace(done.out), "\n") {
			var line migration
			decoder := json.NewDecoder(strings.NewReader(text))
			decoder.DisallowUnknownFields()
			require.NoError(t, decoder.Decode(&line), text)
			at := i
			if args[0] == "down" { // the newest goes first
				at = len(names) - 1 - i
			}
			require.EqualValues(t, at+1, line.Version)
			require.Equal(t, names[at], line.File)
			lines = append(lines, line)
		}
		require.Len(t, lines, len(names))
		return lines
	}
	for _, command := range []string{"up", "status"} {
		for _, line := range lines(command) {
			require.WithinDuration(t, time.Now(), *line.AppliedAt, time.Hour)
		}
	}
	for _, line := range lines("down", "--confirm", "of mine") {
		require.Nil(t, line.AppliedAt)
	}
}

func TestMigrateTellsNoPassword(t *testing.T) {
	t.Parallel()
	for _, given := range []string{
		"postgres://u:sekret@h:port/db", "postgres://u:sek%ret@h/db", "postgres://u:sek/ret@h/db", "postgres://u:sek ret@h/db", "u:sekret@h",
		"host=x password=sekret port=bad", "host=x password='sek ret port=1", "postgres://u:sekret@127.0.0.1:1/db?connect_timeout=1",
	} {
		done := execute(t, "migrate", "down", "--confirm", "fencepost", "--postgres", given)
		require.Equal(t, 2, done.status, given)
		require.Empty(t, done.out)
		require.Contains(t, done.err, "fencepost: postgres")
		require.NotContains(t, done.err, "ret", given)
		require.NotContains(t, done.err, "sek", given)
	}
}

func TestMigrateTakesTheURLFromTheEnvironment(t *testing.T) {
	t.Parallel()
	cmd, _ := command(t, "migrate", "check")
	cmd.Env = append(cmd.Env, "FENCEPOST_POSTGRES_URL="+testenv.Database(t))
	out, err := cmd.Output()
	require.Error(t, err)
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	require.Contains(t, string(out), "is not there")

	cmd, _ = command(t, "migrate", "check")
	cmd.Env = append(cmd.Env, "FENCEPOST_POSTGRES_URL=")
	text, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(text), "postgres: the URL is empty")
	require.Empty(t, os.Getenv("FENCEPOST_POSTGRES_URL"))
}

// After a down that stopped half-way, as an interrupted one does.
func TestMigrateStatusNamesTheVersionThatIsThere(t *testing.T) {
	t.Parallel()
	server, names := testenv.Database(t), files(t)
	require.Zero(t, execute(t, "migrate", "up", "--postgres", server).status)
	db, err := sql.Open("pgx", server)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "CREATE VIEW mine AS SELECT fencepost.number_at(now())")
	require.NoError(t, err)
	done := execute(t, "migrate", "down", "--confirm", "fencepost", "--postgres", server)
	require.Equal(t, 2, done.status)
	require.Equal(t, each(reversed(names[4:]), "", " is gone"), done.out)
	done = execute(t, "migrate", "status", "--postgres", server)
	require.Equal(t, 1, done.status)
	require.Contains(t, done.out, "missing              00005_evict.sql\n")
	require.Contains(t, done.out, `wrong: schema "fencepost" is at version 4, and this program needs 16: `)
}

func TestMigrateDownLeavesProtectedTables(t *testing.T) {
	t.Parallel()
	server := testenv.Database(t)
	require.Zero(t, execute(t, "migrate", "up", "--postgres", server).status)
	db, err := sql.Open("pgx", server)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "CREATE TABLE accounts (id bigint); SELECT fencepost.protect('accounts', 'id::text')")
	require.NoError(t, err)
	done := execute(t, "migrate", "down", "--confirm", "fencepost", "--postgres", server)
	require.Equal(t, 2, done.status)
	require.Empty(t, done.out)
	require.Contains(t, done.err, "tables are still protected: accounts: nothing was removed; ")
	require.Zero(t, execute(t, "migrate", "status", "--postgres", server).status)
	_, cure, _ := strings.Cut(strings.TrimSpace(done.err), "; stop the writers, then ")
	_, err = db.ExecContext(t.Context(), cure)
	require.NoError(t, err)
	require.Zero(t, execute(t, "migrate", "down", "--confirm", "fencepost", "--postgres", server).status)
}
