package migrations_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/migrations"
)

// checked returns what Check finds, with "fence." for the schema and "role" for
// the role.
func checked(t *testing.T, f fence, db *sql.DB) []string {
	t.Helper()
	err := migrations.Set{Schema: f.schema}.Check(t.Context(), db)
	if err == nil {
		return nil
	}
	var found *migrations.CheckError
	require.ErrorAs(t, err, &found)
	require.NotEmpty(t, found.Findings)
	var findings []string
	for _, finding := range found.Findings {
		require.Contains(t, err.Error(), finding)
		finding = strings.ReplaceAll(finding, f.named("fence.role"), "role")
		findings = append(findings, strings.ReplaceAll(finding, f.schema+".", "fence."))
	}
	return findings
}

// application opens the fence's server as a role that has USAGE and nothing
// else.
func application(t *testing.T, f fence) *sql.DB {
	t.Helper()
	asRole(t, f, "GRANT USAGE ON SCHEMA "+f.schema)
	return sqlDB(t, f, f.named("SET ROLE fence.role"))
}

func TestCheckFinds(t *testing.T) {
	t.Parallel()
	for change, finding := range map[string]string{
		"ALTER SEQUENCE fence.numbers CACHE 20":                         "sequence fence.numbers has CACHE 20, so each session draws from a block of its own, and numbers fall: ALTER SEQUENCE fence.numbers CACHE 1",
		"ALTER SEQUENCE fence.numbers CYCLE":                            "sequence fence.numbers has CYCLE, so it begins again: ALTER SEQUENCE fence.numbers NO CYCLE",
		"ALTER SEQUENCE fence.numbers INCREMENT 2":                      "sequence fence.numbers has INCREMENT 2: ALTER SEQUENCE fence.numbers INCREMENT 1",
		"ALTER SEQUENCE fence.numbers MAXVALUE 99":                      "sequence fence.numbers has MAXVALUE 99, and numbers have fifteen digits: ALTER SEQUENCE fence.numbers MAXVALUE 999999999999999",
		"ALTER SEQUENCE fence.numbers SET UNLOGGED":                     "sequence fence.numbers is UNLOGGED, so a crash empties it: ALTER SEQUENCE fence.numbers SET LOGGED",
		"ALTER TABLE fence.marks SET UNLOGGED":                          "table fence.marks is UNLOGGED, so a crash empties it: ALTER TABLE fence.marks SET LOGGED",
		"ALTER TABLE fence.floor SET UNLOGGED":                          "table fence.floor is UNLOGGED, so a crash empties it: ALTER TABLE fence.floor SET LOGGED",
		"ALTER TABLE fence.leases SET UNLOGGED":                         "table fence.leases is UNLOGGED, so a crash empties it: ALTER TABLE fence.leases SET LOGGED",
		"REVOKE EXECUTE ON FUNCTION fence.version() FROM PUBLIC":        "role role may not execute function fence.version(): GRANT EXECUTE ON FUNCTION fence.version() TO role",
		"REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA %s FROM PUBLIC":      "role role may not execute function fence.admit(text, bigint, text, integer): GRANT EXECUTE ON FUNCTION fence.admit(text, bigint, text, integer) TO role",
		"GRANT EXECUTE ON FUNCTION fence.reset(text, bigint) TO PUBLIC": "everybody may execute function fence.reset(text, bigint), which is not for writers: REVOKE EXECUTE ON FUNCTION fence.reset(text, bigint) FROM PUBLIC",
		"GRANT UPDATE ON fence.marks TO PUBLIC":                         "role role was granted the right to change table fence.marks past the functions: REVOKE ALL ON fence.marks FROM role, PUBLIC",
		"GRANT UPDATE ON fence.numbers TO PUBLIC":                       "role role was granted the right to change sequence fence.numbers past the functions: REVOKE ALL ON fence.numbers FROM role, PUBLIC",
	} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			f := newFence(t)
			db := application(t, f)
			require.Empty(t, checked(t, f, db))
			require.NoError(t, f.exec(t.Context(), f, strings.ReplaceAll(change, "%s", f.schema)))
			findings := checked(t, f, db)
			require.Contains(t, findings, finding)

			_, cure, _ := strings.Cut(finding, ": ")
			cure = strings.NewReplacer("TO role", f.named("TO fence.role"), "FROM role", f.named("FROM fence.role")).Replace(cure)
			require.NoError(t, f.exec(t.Context(), f, cure), "its cure")
			require.NotContains(t, checked(t, f, db), finding)
		})
	}
}

// In development the program often owns the tables.
func TestCheckLetsOwnersPass(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	require.Empty(t, checked(t, f, sqlDB(t, f)), "a superuser")
	asRole(t, f, "GRANT USAGE, CREATE ON SCHEMA "+f.schema)
	f.atEnd(t, f.named("REASSIGN OWNED BY fence.role TO CURRENT_USER"))
	db := sqlDB(t, f, f.named("SET ROLE fence.role"))
	for _, table := range []string{"marks", "floor", "leases"} {
		require.NoError(t, f.exec(t.Context(), f, f.named("ALTER TABLE "+f.sql("fence.")+table+" OWNER TO fence.role")))
	}
	require.Empty(t, checked(t, f, db))
}

func TestCheckMissesNoTable(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	db := application(t, f)
	for _, table := range strings.Fields(one[string](t, db, `SELECT string_agg(relname, ' ') FROM pg_class
		WHERE relnamespace = $1::text::regnamespace AND relkind IN ('r', 'S') AND relname NOT LIKE 'fencepost_migrations%'`, f.schema)) {
		require.NoError(t, f.exec(t.Context(), f, "ALTER TABLE fence."+table+" RENAME TO gone"))
		findings := checked(t, f, db)
		require.Len(t, findings, 1, table)
		require.Contains(t, findings[0], " fence."+table+" is not there: restore it from a backup")
		require.NoError(t, f.exec(t.Context(), f, "ALTER TABLE fence.gone RENAME TO "+table))
	}
	require.Empty(t, checked(t, f, db))
}

// hazard P1
func TestCheckFindsTheCacheThatMakesNumbersFall(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	db := application(t, f)
	draw := func() (drawn []int64) {
		first, second := f.conn(t), f.conn(t)
		for _, conn := range []*pgx.Conn{first, second, first} {
			drawn = append(drawn, get[int64](t, f, conn, "SELECT nextval($1::text::regclass)", f.sql("fence.numbers")))
		}
		return drawn
	}
	require.Equal(t, []int64{1, 2, 3}, draw())
	require.Empty(t, checked(t, f, db))
	require.NoError(t, f.exec(t.Context(), f, "ALTER SEQUENCE fence.numbers CACHE 20"))
	require.Equal(t, []int64{4, 24, 5}, draw(), "the twin: numbers fall")
	require.Len(t, checked(t, f, db), 1)
}
