package doctor_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/doctor"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// hazard G28
func TestAnotherEngineIsFound(t *testing.T) {
	t.Parallel()
	server := migrated(t)
	admin := session(t, server.URL())
	examine := func() *doctor.Report { return examinePostgres(t, server.URL(), "", nil) }
	sound(t, examine())

	exec(t, admin, `INSERT INTO pg_catalog.pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
		SELECT 99999, 'citus', 10, oid, false, '12.1' FROM pg_catalog.pg_namespace WHERE nspname = 'public'`)
	alone(t, examine(), "engine", doctor.Fail, "with the extension citus is not known to fence")
	exec(t, admin, "DELETE FROM pg_catalog.pg_extension WHERE oid = 99999")

	// Stubs, as in CockroachDB: the first excludes nothing, the second everything.
	exec(t, admin, "SET allow_system_table_mods = on; ALTER FUNCTION pg_catalog.pg_advisory_xact_lock_shared(bigint) RENAME TO was; "+
		"CREATE FUNCTION pg_catalog.pg_advisory_xact_lock_shared(bigint) RETURNS void LANGUAGE sql AS ''")
	alone(t, examine(), "locks", doctor.Fail, "two connections have the same advisory lock at the same time")
	exec(t, admin, "DROP FUNCTION pg_catalog.pg_advisory_xact_lock_shared(bigint); ALTER FUNCTION pg_catalog.was(bigint) RENAME TO pg_advisory_xact_lock_shared")
	exec(t, admin, "ALTER FUNCTION pg_catalog.pg_try_advisory_xact_lock(bigint) RENAME TO was; "+
		"CREATE FUNCTION pg_catalog.pg_try_advisory_xact_lock(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false'")
	alone(t, examine(), "locks", doctor.Fail, "outlives the transaction")
	exec(t, admin, "DROP FUNCTION pg_catalog.pg_try_advisory_xact_lock(bigint); ALTER FUNCTION pg_catalog.was(bigint) RENAME TO pg_try_advisory_xact_lock")
	sound(t, examine())

	exec(t, admin, "ALTER FUNCTION pg_catalog.version() RENAME TO was; CREATE FUNCTION pg_catalog.version() RETURNS text LANGUAGE sql AS "+
		"$$ SELECT 'PostgreSQL 15.2-YB-2025.2.2.2-b0 on x86_64-pc-linux-gnu, compiled by clang version 19.1.2, 64-bit' $$")
	require.Equal(t, doctor.Fail, of(t, examine(), "engine").Verdict)
	require.Contains(t, of(t, examine(), "engine").Fix, "yb_enable_read_committed_isolation")
}

// hazard G28
func TestTheProofOfLocksAndReadCommitted(t *testing.T) {
	t.Parallel()
	a, b := session(t, testenv.PostgresURL(t)), session(t, testenv.PostgresURL(t))
	for level, wrong := range map[pgx.TxIsoLevel]string{pgx.ReadCommitted: "", pgx.RepeatableRead: "does not see commits", pgx.Serializable: "does not see commits"} {
		found, err := doctor.Prove(t.Context(), a, b, level)
		require.NoError(t, err)
		require.Equal(t, wrong == "", found == "", level)
		require.Contains(t, found, wrong)
	}
}

func TestStressAStandbyProvesNothing(t *testing.T) {
	t.Parallel()
	standby := migrated(t).Standby()
	report := examinePostgres(t, standby.URL(), "", nil)
	require.Equal(t, doctor.Pass, of(t, report, "engine").Verdict)
	require.Equal(t, doctor.Unknown, of(t, report, "locks").Verdict)
}
