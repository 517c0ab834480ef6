package main

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

// The rights that fencepost marks --help names suffice, and no right of the
// application does.
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
			"GRANT EXECUTE ON FUNCTION fence.prune(bigint, integer) TO " + role, "GRANT EXECUTE ON FUNCTION fence.reset(text, bigint) TO " + role}
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
