package migrations_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/migrations"
)

// A role as managed services give it: it owns its database, and is no superuser.
func TestOrdinaryOwner(t *testing.T) {
	t.Parallel()
	ctx, admin := t.Context(), newDatabase(t)
	owner, app, operator := newRole(t, admin), newRole(t, admin), newRole(t, admin)
	database := one[string](t, admin, "SELECT current_database()")
	_, err := admin.ExecContext(ctx, "ALTER DATABASE "+database+" OWNER TO "+owner)
	require.NoError(t, err)
	t.Cleanup(func() { // before the role goes
		_, err := admin.ExecContext(context.WithoutCancel(ctx), "ALTER DATABASE "+database+" OWNER TO CURRENT_USER")
		require.NoError(t, err)
	})
	config, err := pgx.ParseConfig(testenv.PostgresURL(t))
	require.NoError(t, err)
	config.Database = database
	as := func(role string) *pgx.Conn {
		config := config.Copy()
		config.User, config.Password = role, "role"
		conn, err := pgx.ConnectConfig(ctx, config)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close(context.WithoutCancel(ctx)) })
		return conn
	}
	config.User, config.Password = owner, "role"
	db := opened(t, stdlib.OpenDB(*config))

	require.NoError(t, migrations.Up(ctx, db))
	require.NoError(t, migrations.Check(ctx, db))
	_, err = db.ExecContext(ctx, "GRANT USAGE ON SCHEMA fencepost TO "+app+", "+operator)
	require.NoError(t, err)

	sleeper, successor, stranger := as(app), as(app), as(operator)
	sleep := func(conn *pgx.Conn) {
		_, err := conn.Exec(ctx, "SELECT fencepost.admit('account/42', 5, 'a')")
		require.NoError(t, err)
		_, err = conn.Exec(ctx, "BEGIN; SELECT fencepost.admit('account/42', 5, 'a')")
		require.NoError(t, err)
	}
	sleep(sleeper)
	_, err = stranger.Exec(ctx, "SELECT fencepost.evict('account/42', 6)")
	require.Equal(t, "42501", code(err), "another role's session")
	var ended int
	require.NoError(t, successor.QueryRow(ctx, "SELECT fencepost.evict('account/42', 6)").Scan(&ended))
	require.Equal(t, 1, ended, "a session of its own role needs no right")
	// It is ended by a signal, and has its lock until it notices.
	require.Eventually(t, func() bool {
		return one[int](t, admin, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") == 0
	}, 30*time.Second, 10*time.Millisecond)

	_, err = admin.ExecContext(ctx, "GRANT pg_signal_backend TO "+operator)
	require.NoError(t, err)
	sleep(as(app))
	require.NoError(t, stranger.QueryRow(ctx, "SELECT fencepost.evict('account/42', 6)").Scan(&ended))
	require.Equal(t, 1, ended)

	require.False(t, one[bool](t, admin, "SELECT has_table_privilege($1, 'fencepost.marks', 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')", app))
	require.NoError(t, migrations.Down(ctx, db))
	require.NoError(t, migrations.Up(ctx, db))
}
