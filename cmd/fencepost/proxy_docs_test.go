package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// The page has a row for each flag, with its default, and no others.
func TestThePageListsTheFlags(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/proxy.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## Every flag\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	done := execute(t, "proxy", "--help")
	require.Zero(t, done.status)
	text := strings.Join(strings.Fields(done.out), " ")
	flags := regexp.MustCompile(` --([a-z-]+)(=|\s)`).FindAllStringSubmatch(text[strings.Index(text, "Flags:"):], -1)
	require.Greater(t, len(flags), 20)
	rows := regexp.MustCompile("(?m)^\\| `--([a-z-]+)").FindAllStringSubmatch(section, -1)
	listed := map[string]bool{}
	for _, row := range rows {
		listed[row[1]] = true
	}
	for _, flag := range flags {
		if !slices.Contains([]string{"help", "no-color", "version"}, flag[1]) {
			require.True(t, listed[flag[1]], "--%s has no row", flag[1])
		}
	}
	for name := range listed {
		require.Contains(t, text, "--"+name, "the command has no such flag")
	}
	for _, value := range regexp.MustCompile(`\(([0-9][0-9a-zA-Z.:]+)\)`).FindAllStringSubmatch(text, -1) {
		require.Contains(t, section, value[1])
	}
}

// The statements that the page has for services in other languages pay once.
func TestThePagesStatementsApplyAKeyOnce(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/proxy.md")
	require.NoError(t, err)
	statement := func(verb string) string {
		return regexp.MustCompile("(?m)^" + verb + " [^;]*;").FindString(string(page))
	}
	pool, schema := testenv.Postgres(t)
	accounts := pgtest.Accounts(t, pool, schema, 42)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	pgtest.Exec(t, tx, "SET LOCAL search_path = "+pgx.Identifier{schema}.Sanitize())
	pgtest.Exec(t, tx, statement("CREATE"))
	for _, c := range []struct {
		caller, request string
		same            bool
	}{{"a", "x", true}, {"a", "x", true}, {"a", "y", false}, {"b", "x", true}} {
		done, err := tx.Exec(t.Context(), statement("INSERT"), c.caller, "k", []byte(c.request), []byte("paid"))
		require.NoError(t, err)
		if done.RowsAffected() == 1 {
			pgtest.Exec(t, tx, statement("UPDATE"))
		}
		var same bool
		var answer []byte
		require.NoError(t, tx.QueryRow(t.Context(), statement("SELECT"), c.caller, "k", []byte(c.request)).Scan(&same, &answer))
		require.Equal(t, c.same, same)
		require.Equal(t, "paid", string(answer))
	}
	require.EqualValues(t, 80, pgtest.Query[int64](t, tx, "SELECT balance FROM "+accounts+" WHERE id = 42"))
}
