package main

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// The rights that an error names suffice, and no right of the application does.
func TestMarksNeedsTheRightsThatItNames(t *testing.T) {
	t.Parallel()
	m := newMarked(t)
	m.admit("account/1", 5, "a")
	m.admit("account/2", poison, "forged")
	role := m.schema + "_operator"
	exec := func(text string) {
		_, err := m.pool.Exec(context.WithoutCancel(t.Context()), m.sql(text))
		require.NoError(t, err)
	}
	exec("CREATE ROLE " + role + " LOGIN PASSWORD 'operator'")
	t.Cleanup(func() { exec("DROP OWNED BY " + role + "; DROP ROLE " + role) })
	exec("GRANT USAGE ON SCHEMA " + pgx.Identifier{m.schema}.Sanitize() + " TO " + role)
	server, err := url.Parse(testenv.PostgresURL(t))
	require.NoError(t, err)
	server.User = url.UserPassword(role, "operator")
	commands := [][]string{
		{"list"}, {"show", "account/1"}, {"prune", "--older-than", "720h"}, {"reset", "account/2", "--confirm", "account/2"},
	}
	run := func(args []string) finished {
		return execute(t, append([]string{"marks", "--postgres", server.String(), "--schema", m.schema}, args...)...)
	}
	for i, args := range commands {
		done := run(args)
		require.Equal(t, 2, done.status, args)
		require.Contains(t, done.err, "permission denied for table")
		named := []string{"fence.floor TO " + role + "; GRANT SELECT ON fence.marks TO " + role,
			"GRANT EXECUTE ON FUNCTION fence.prune(bigint, integer) TO " + role + "; GRANT EXECUTE ON FUNCTION fence.prune_units(integer) TO " + role, "GRANT EXECUTE ON FUNCTION fence.reset(text, bigint) TO " + role}
		for j, grant := range named {
			require.Equal(t, j == 0 || j == i-1, strings.Contains(done.err, m.bare(grant)), "%s: %s", args, done.err)
		}
	}
	for _, grant := range strings.Split(strings.TrimSpace(strings.Split(run(commands[0]).err, "a right is missing: ")[1]), "; ") {
		exec(grant)
	}
	for i, args := range commands {
		done := run(args)
		if i < 2 {
			require.Zero(t, done.status, done.err)
			continue
		}
		require.Equal(t, 2, done.status, args)
		require.Contains(t, done.err, "permission denied for function")
	}
	for _, args := range commands[2:] {
		exec(strings.Split(run(args).err, "a right is missing: ")[1])
	}
	for _, args := range commands {
		done := run(args)
		require.Zero(t, done.status, done.err)
	}
	_, holder := m.mark("account/2")
	require.Contains(t, holder, "reset/"+role+"/")
}

func TestMarksNeedsTheRightsThatItNamesOnMySQL(t *testing.T) {
	t.Parallel()
	m := newMarkedMySQL(t)
	m.admit("account/1", 5, "a")
	m.admit("account/2", poison, "forged")
	a := newAccount(t, m)
	commands := [][]string{
		{"list"}, {"show", "account/1"}, {"prune", "--older-than", "720h"}, {"reset", "account/2", "--confirm", "account/2"},
	}
	for _, args := range commands {
		run := func() finished { return execute(t, append([]string{"marks", "--mysql", a.dsn}, args...)...) }
		done := run()
		require.Equal(t, 2, done.status, args)
		_, grants, named := strings.Cut(strings.TrimSpace(done.err), "a right is missing: ")
		require.True(t, named, done.err)
		for _, grant := range strings.Split(grants, "; ") {
			m.exec(grant)
		}
		done = run()
		require.Zero(t, done.status, done.err)
		if args[0] == "reset" {
			_, holder := m.mark("account/2")
			require.Contains(t, holder, "reset/"+a.name+"@")
		}
		m.exec("REVOKE ALL PRIVILEGES, GRANT OPTION FROM " + a.quoted)
		m.exec("GRANT CREATE TEMPORARY TABLES ON " + a.database + ".* TO " + a.quoted)
	}
}

// account may use the database of m, and none of its tables.
type account struct{ name, quoted, database, dsn string }

func newAccount(t *testing.T, m *marked) account {
	t.Helper()
	config, err := mysql.ParseDSN(m.flags[1])
	require.NoError(t, err)
	a := account{name: config.DBName + "_r", database: config.DBName}
	a.quoted = "'" + a.name + "'@'%'"
	m.exec("CREATE USER " + a.quoted + " IDENTIFIED BY 'secret'")
	t.Cleanup(func() { _, _ = m.ExecContext(context.WithoutCancel(t.Context()), "DROP USER "+a.quoted) })
	m.exec("GRANT CREATE TEMPORARY TABLES ON " + a.database + ".* TO " + a.quoted)
	config.User, config.Passwd = a.name, "secret"
	a.dsn = config.FormatDSN()
	return a
}

// A program's account needs the rights that migrate check names, and no others.
func TestMigrateOnMySQLNamesTheRightsThatItNeeds(t *testing.T) {
	t.Parallel()
	m := newMarkedMySQL(t)
	a := newAccount(t, m)
	check := func(command string) finished { return execute(t, "migrate", command, "--mysql", a.dsn) }
	grantsAfter := func(text, before string) {
		t.Helper()
		_, grants, named := strings.Cut(strings.TrimSpace(text), before)
		require.True(t, named, text)
		for _, grant := range strings.Split(grants, "; ") {
			m.exec(grant)
		}
	}
	done := check("check")
	require.Equal(t, 1, done.status, done.err)
	grantsAfter(done.out, "wrong: this account lacks rights on fencepost_marks or fencepost_floor: ")
	done = check("check")
	require.Zero(t, done.status, done.err+done.out)
	config, err := mysql.ParseDSN(a.dsn)
	require.NoError(t, err)
	connector, err := mysql.NewConnector(config)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	defer db.Close()
	g := stdsql.Guard{DB: db, Dialect: stdsql.MySQL}
	require.NoError(t, g.Admit(t.Context(), token.Token{Resource: "account/42", Number: 5, Holder: "a"}), "these rights suffice for a guard")

	done = check("status")
	require.Equal(t, 1, done.status, done.err)
	require.Contains(t, done.out, "there is no table fencepost_migrations that this account can see")
	m.exec("GRANT SELECT ON " + a.database + ".fencepost_migrations TO " + a.quoted)
	done = check("status")
	require.Zero(t, done.status, done.err+done.out)
}

// bare is sql for names that format's %I leaves as they are.
func (m *marked) bare(text string) string { return strings.ReplaceAll(text, "fence.", m.schema+".") }

func TestMigrateStatusNamesTheRightsThatItNeeds(t *testing.T) {
	t.Parallel()
	m := newMarked(t)
	role := m.schema + "_reader"
	exec := func(text string) {
		_, err := m.pool.Exec(context.WithoutCancel(t.Context()), text)
		require.NoError(t, err)
	}
	exec("CREATE ROLE " + role + " LOGIN PASSWORD 'reader'")
	t.Cleanup(func() { exec("DROP OWNED BY " + role + "; DROP ROLE " + role) })
	server, err := url.Parse(testenv.PostgresURL(t))
	require.NoError(t, err)
	server.User = url.UserPassword(role, "reader")
	status := func() finished {
		return execute(t, "migrate", "status", "--postgres", server.String(), "--schema", m.schema)
	}
	done := status()
	require.Equal(t, 2, done.status)
	_, cure, named := strings.Cut(done.err, "a right is missing: ")
	require.True(t, named, done.err)
	require.Equal(t, m.bare("GRANT USAGE ON SCHEMA "+m.schema+" TO "+role+"; GRANT SELECT ON fence.fencepost_migrations TO "+role+"\n"), cure)
	exec(cure)
	done = status()
	require.Zero(t, done.status, done.err+done.out)
}
