package migrations_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// asRole connects as a role that has been granted what grants say, and nothing
// else. Where they say "fence.role" they mean the role.
func asRole(t *testing.T, f fence, grants string) *pgx.Conn {
	t.Helper()
	role := f.named("fence.role")
	require.NoError(t, f.exec(t.Context(), f, "CREATE ROLE "+role))
	f.atEnd(t, "DROP OWNED BY "+role+"; DROP ROLE "+role)
	if grants != "" {
		require.NoError(t, f.exec(t.Context(), f, grants+" TO "+role))
	}
	conn := f.conn(t)
	require.NoError(t, f.exec(t.Context(), conn, "SET ROLE "+role))
	return conn
}

func TestRoleOfTheApplication(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	conn := asRole(t, f, "GRANT USAGE ON SCHEMA "+f.schema)
	for _, may := range []string{
		"SELECT fence.admit('account/42', 5, 'a')",
		"SELECT fence.admit('account/42', 6, 'a', 1000)",
		"SELECT fence.observe('account/42', 5, 'a')",
		"SELECT fence.mint('account/42', 'a')",
		"SELECT fence.evict('account/42', 6)",
		"SELECT fence.acquire('account/42', 'a', '1 minute')",
		"SELECT fence.renew('account/42', 'a', '1 minute')",
		"SELECT fence.release('account/42', 'a')",
		"SELECT fence.ask('account/42', 'a', '1 minute', true), fence.ask('account/42', 'b', '1 minute', true, 0, 0, '1 s'), fence.leave('account/42', 'a')",
		"SELECT fence.renew_all('{account/42}', '{b}', '{1000000}'), fence.raise('account/42', 1)",
	} {
		require.NoError(t, f.exec(ctx, conn, may), may)
	}
	for _, mayNot := range []string{
		"SELECT * FROM fence.marks", "INSERT INTO fence.marks VALUES ('x', 1, 'a')", "UPDATE fence.marks SET number = 1", "DELETE FROM fence.marks", "TRUNCATE fence.marks",
		"SELECT * FROM fence.leases", "INSERT INTO fence.leases VALUES ('x', 1, 'a', now())", "UPDATE fence.leases SET number = 1", "DELETE FROM fence.leases", "SELECT * FROM fence.waiters",
		"SELECT nextval('fence.numbers')", "SELECT setval('fence.numbers', 1)", "ALTER SEQUENCE fence.numbers CACHE 10",
		"SELECT fence.admit_slow('x', 5, 'a', 0)", "SELECT fence.lock_lease('account/42')", "SELECT fence.give('x', 'a', '1 s', 1, false, false)", "SELECT fence.claim('x', 'a', 1)",
		"SELECT fence.enter('x', 'a', '1 s', false, 0, 0, '1 s', now())", "SELECT fence.release_slow('x', 'a')", "SELECT fence.head_of('x', 'a')",
		"SELECT fence.lock_alone('x', 0)", "SELECT fence.remember('x')", "SELECT fence.commit_durably()", "SELECT fence.next_number(1)",
		"CREATE FUNCTION fence.mine() RETURNS void LANGUAGE sql AS ''",
	} {
		require.Equal(t, "42501", code(f.exec(ctx, conn, mayNot)), mayNot)
	}
	require.Equal(t, "acquire add_mark_columns admit advisory_acquire advisory_draw advisory_key advisory_queue advisory_raise advisory_release advisory_renew advisory_wait "+
		"ask bypass check_row evict leave lock_key mark_number micros mint number_at observe "+
		"protect protect_check protect_expression protect_triggers protected raise refusing release renew renew_all unprotect version", get[string](t, f, conn,
		"SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc WHERE pronamespace = $1::text::regnamespace AND has_function_privilege(oid, 'EXECUTE')", f.schema))
	refused(t, f.admit(ctx, conn, "account/42", 6, "b"), "ZF001", get[string](t, f, f, "SELECT number || ' ' || holder FROM fence.marks"))
}

func TestRoleWithoutUsage(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	conn := asRole(t, f, "")
	for _, call := range []string{"admit('x', 5, 'a')", "mint('x', 'a')", "acquire('x', 'a', '1 s')", "evict('x', 1)"} {
		require.Equal(t, "42501", code(f.exec(t.Context(), conn, "SELECT fence."+call)), call)
	}
}

// What runs as the owner must not find the caller's functions and operators.
func TestCallersSearchPathIsNotUsed(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	require.NoError(t, f.admit(ctx, f, "account/42", 6, "b"))
	conn := asRole(t, f, "GRANT USAGE, CREATE ON SCHEMA "+f.schema)
	require.NoError(t, f.exec(ctx, conn, `
		CREATE FUNCTION fence.mine(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'mine: %', current_user; END $$;
		CREATE FUNCTION fence.mine(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'mine: %', current_user; END $$;
		CREATE OPERATOR fence.= (LEFTARG = text, RIGHTARG = text, FUNCTION = fence.mine);
		CREATE OPERATOR fence.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = fence.mine);
		CREATE OPERATOR fence.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = fence.mine)`))
	require.NoError(t, f.exec(ctx, conn, "SELECT set_config('search_path', $1, false)", pgx.Identifier{f.schema}.Sanitize()+", pg_catalog"))
	refused(t, f.admit(ctx, conn, "account/42", 5, "a"), "ZF001", "6 b")
	require.NoError(t, f.admit(ctx, conn, "account/42", 6, "b"))
	require.NoError(t, f.exec(ctx, conn, "SELECT fence.acquire('account/42', 'a', '1 minute'), fence.renew('account/42', 'a', '1 minute'), fence.release('account/42', 'a'), fence.mint('account/42', 'a')"))
}

func TestEvictUsesTheCallersRights(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	tx := f.begin(t, pgx.ReadCommitted)
	require.NoError(t, f.admit(ctx, f, "account/42", 5, "a"))
	require.NoError(t, f.admit(ctx, tx, "account/42", 5, "a"))
	asRole(t, f, "GRANT USAGE ON SCHEMA "+f.schema)
	require.NoError(t, f.exec(ctx, f, f.named("ALTER ROLE fence.role LOGIN PASSWORD 'role'")))
	config := f.Config().ConnConfig.Copy()
	config.User, config.Password = f.named("fence.role"), "role"
	login := func() *pgx.Conn {
		conn, err := pgx.ConnectConfig(ctx, config)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close(context.WithoutCancel(ctx)) })
		return conn
	}
	conn, own := login(), login()
	require.Equal(t, "42501", code(f.exec(ctx, conn, "SELECT fence.evict('account/42', 6)")), "not its own session")
	require.NoError(t, tx.Commit(ctx))

	require.NoError(t, f.exec(ctx, own, "BEGIN"))
	require.NoError(t, f.admit(ctx, own, "account/42", 5, "a"))
	require.Equal(t, 1, get[int](t, f, conn, "SELECT fence.evict('account/42', 6)"))
}
