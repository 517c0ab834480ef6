package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// Each flag and metric of the page exists, and the page has each metric.
func TestThePageOfTheProxyIsRight(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/proxy.md")
	require.NoError(t, err)
	help := execute(t, "proxy", "--help").out + execute(t, "migrate", "up", "--help").out
	flags := regexp.MustCompile(`--[a-z][a-z-]+`)
	for _, flag := range flags.FindAllString(string(page), -1) {
		require.Contains(t, flags.FindAllString(help, -1), flag)
	}
	listed := regexp.MustCompile("fencepost_proxy_[a-z_]+").FindAllString(string(page), -1)
	p := startProxy(t, "http://127.0.0.1:1", "--dangerously-memory", "--resource", "account/{id}")
	var served []string
	for _, line := range regexp.MustCompile(`(?m)^# TYPE (\S+) `).FindAllStringSubmatch(ask(t, "GET", p.admin+"/metrics", "").body, -1) {
		served = append(served, line[1])
	}
	require.ElementsMatch(t, served, listed)
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
