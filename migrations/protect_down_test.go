package migrations_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/migrations"
)

// Down would leave triggers behind that refuse every write for ever.
func TestDownOfProtectedTables(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	f.protect(t, "fence.plain", "'plain/' || id")
	set, db := migrations.Set{Schema: f.schema}, sqlDB(t, f)
	before := catalog(t, f)
	quoted := pgx.Identifier{f.schema}.Sanitize()
	require.EqualError(t, set.Down(t.Context(), db), "migrations: postgres: tables are still protected: "+f.schema+".accounts, "+f.schema+".plain: "+
		"nothing was removed; stop the writers, then SELECT "+quoted+".unprotect(tab) FROM "+quoted+".protected()")
	require.Equal(t, before, catalog(t, f))
	require.NoError(t, set.Check(t.Context(), db))
	require.NoError(t, f.guarded(t, write42, "account/42"), "what is guarded goes on")
	unguarded(t, f.exec(t.Context(), f, write42))

	run(t, f, f, "SELECT fence.unprotect(tab) FROM fence.protected()")
	require.NoError(t, set.Down(t.Context(), db))
	require.Empty(t, f.traces(t))
	run(t, f, f, write42)
	require.NoError(t, set.Up(t.Context(), db))
	f.protect(t, "fence.accounts", account)
	unguarded(t, f.exec(t.Context(), f, write42))
}

// Whoever takes the files back with a goose of their own is stopped by the file.
func TestTheFileRefusesToGoFromProtectedTables(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	script, err := migrations.FS.ReadFile("postgres/00011_protect.sql")
	require.NoError(t, err)
	_, down, _ := strings.Cut(strings.ReplaceAll(string(script), `"fencepost".`, f.sql("fence.")), "-- +goose Down")
	require.Equal(t, "2BP01", code(f.exec(t.Context(), f, down)))
	unguarded(t, f.exec(t.Context(), f, write42))
}

func TestUnprotectLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	run(t, f, f, "CREATE TABLE fence.accounts (id bigint PRIMARY KEY, writer text)")
	catalogs := func() []string {
		return get[[]string](t, f, f, `SELECT array(SELECT 'pg_proc ' || oid FROM pg_proc WHERE pronamespace = rtrim('fence.', '.')::regnamespace
			UNION ALL SELECT 'pg_class ' || oid FROM pg_class WHERE relnamespace = rtrim('fence.', '.')::regnamespace
			UNION ALL SELECT 'pg_type ' || oid FROM pg_type WHERE typnamespace = rtrim('fence.', '.')::regnamespace
			UNION ALL SELECT 'pg_trigger ' || oid FROM pg_trigger WHERE tgrelid = 'fence.accounts'::regclass
			UNION ALL SELECT concat_ws(' ', 'pg_depend', classid, objid, objsubid, refobjid, deptype) FROM pg_depend WHERE refobjid = 'fence.accounts'::regclass ORDER BY 1)`)
	}
	before := catalogs()
	for _, mode := range []string{"observe", "enforce"} {
		run(t, f, f, "SELECT fence.protect('fence.accounts', $1, $2)", account, mode)
	}
	require.NotEqual(t, before, catalogs())
	require.True(t, get[bool](t, f, f, "SELECT fence.unprotect('fence.accounts')"))
	require.Equal(t, before, catalogs())
	require.Zero(t, get[int](t, f, f, "SELECT count(*) FROM fence.protected()"))
	run(t, f, f, "INSERT INTO fence.accounts VALUES (42, ''); "+write42+"; TRUNCATE fence.accounts")
}
