package doctor_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver for the migrations
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/doctor"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
)

// migrated is a server of the test's own with the schema "fencepost".
func migrated(t *testing.T, settings ...string) *testenv.PostgresServer {
	t.Helper()
	server := testenv.OwnPostgres(t, settings...)
	db, err := sql.Open("pgx", server.URL())
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, migrations.Set{}.Up(t.Context(), db))
	return server
}

// hazard P1
func TestEachSettingOfPostgresHasItsCheck(t *testing.T) {
	t.Parallel()
	server := migrated(t)
	admin := session(t, server.URL())
	examine := func() *doctor.Report { return examinePostgres(t, server.URL(), "", nil) }
	sound(t, examine())
	cases := []struct {
		change, back string
		check        string
		verdict      doctor.Verdict
		evidence     string
	}{
		{"ALTER SYSTEM SET fsync = off", "ALTER SYSTEM RESET fsync", "fsync", doctor.Fail, "fsync is off, full_page_writes is on"},
		{"ALTER SYSTEM SET full_page_writes = off", "ALTER SYSTEM RESET full_page_writes", "fsync", doctor.Fail, "full_page_writes is off"},
		{"ALTER ROLE postgres SET synchronous_commit = off", "ALTER ROLE postgres RESET synchronous_commit", "synchronous_commit", doctor.Warn, "is off"},
		{"ALTER ROLE postgres SET synchronous_commit = local", "ALTER ROLE postgres RESET synchronous_commit", "synchronous_commit", doctor.Warn, "is local"},
		{"ALTER SYSTEM SET synchronous_standby_names = 'one'", "ALTER SYSTEM RESET synchronous_standby_names", "standbys", doctor.Fail, `"one", 0 standbys follow: every commit waits`},
		{"ALTER SEQUENCE fencepost.numbers CACHE 20", "ALTER SEQUENCE fencepost.numbers CACHE 1", "schema", doctor.Fail, "CACHE 20"},
		{"ALTER SEQUENCE fencepost.numbers CYCLE", "ALTER SEQUENCE fencepost.numbers NO CYCLE", "schema", doctor.Fail, "has CYCLE"},
		{"ALTER SEQUENCE fencepost.numbers INCREMENT 2", "ALTER SEQUENCE fencepost.numbers INCREMENT 1", "schema", doctor.Fail, "INCREMENT 2"},
		{"ALTER SEQUENCE fencepost.numbers MAXVALUE 99", "ALTER SEQUENCE fencepost.numbers MAXVALUE 999999999999999", "schema", doctor.Fail, "MAXVALUE 99"},
		{"ALTER TABLE fencepost.marks SET UNLOGGED", "ALTER TABLE fencepost.marks SET LOGGED", "schema", doctor.Fail, "fencepost.marks is UNLOGGED"},
		{"ALTER FUNCTION fencepost.evict RENAME TO gone", "ALTER FUNCTION fencepost.gone RENAME TO evict", "schema", doctor.Fail, "fencepost.evict"},
		{"ALTER ROLE postgres SET session_replication_role = replica", "ALTER ROLE postgres RESET session_replication_role", "triggers", doctor.Fail, "is replica"},
	}
	for i, c := range cases {
		t.Run(c.change, func(t *testing.T) {
			exec(t, admin, "SET synchronous_commit = local") // or it would wait for the standby that is not there
			change(t, admin, c.change)
			found := alone(t, examine(), c.check, c.verdict, c.evidence)
			if !strings.HasPrefix(found.Fix, "ALTER") || strings.Contains(found.Fix, "…") {
				found.Fix = c.back // it is for people
			}
			for statement := range strings.SplitSeq(found.Fix, "; ") {
				change(t, admin, statement)
			}
			if i == len(cases)-1 || cases[i+1].check == c.check { // otherwise the next case sees that this check passes
				sound(t, examine())
			}
		})
	}
}

// change also waits until new sessions have the setting.
func change(t *testing.T, admin *pgx.Conn, statement string) {
	t.Helper()
	exec(t, admin, statement)
	if !strings.HasPrefix(statement, "ALTER SYSTEM") {
		return
	}
	loaded := func() (at string) {
		require.NoError(t, admin.QueryRow(t.Context(), "SELECT pg_conf_load_time()::text").Scan(&at))
		return at
	}
	before := loaded()
	exec(t, admin, "SELECT pg_reload_conf()")
	require.Eventually(t, func() bool { return loaded() != before }, testTime, tick)
}

// hazard P6
func TestStandbysAreFound(t *testing.T) {
	t.Parallel()
	server := migrated(t)
	admin := session(t, server.URL())
	standby := server.Standby("cluster_name=one")
	examine := func(set func(*pgx.ConnConfig)) *doctor.Report { return examinePostgres(t, server.URL(), "", set) }
	found := alone(t, examine(nil), "standbys", doctor.Warn, "1 standbys follow: one async")

	require.Equal(t, doctor.Fail, of(t, examinePostgres(t, standby.URL(), "", nil), "role").Verdict)
	exec(t, admin, "CREATE ROLE blind LOGIN; GRANT USAGE ON SCHEMA fencepost TO blind")
	blind := func(check string) doctor.Finding {
		return of(t, examine(func(config *pgx.ConnConfig) { config.User = "blind" }), check)
	}
	unseen := blind("standbys")
	require.Equal(t, doctor.Unknown, unseen.Verdict)
	require.Equal(t, doctor.Pass, blind("evictions").Verdict)
	exec(t, admin, "GRANT pg_signal_backend TO blind")
	require.Equal(t, doctor.Warn, blind("evictions").Verdict)
	exec(t, admin, strings.Replace(blind("evictions").Fix, "this role", "blind", 1))
	require.Equal(t, doctor.Pass, blind("evictions").Verdict)
	require.Contains(t, unseen.Fix, "pg_monitor")

	for _, statement := range strings.Split(found.Fix, "; ") {
		exec(t, admin, statement)
	}
	require.Eventually(t, func() bool {
		return of(t, examine(nil), "standbys").Verdict == doctor.Pass
	}, testTime, tick, "its fix")
	require.Contains(t, of(t, examine(nil), "standbys").Evidence, "one quorum")
}
