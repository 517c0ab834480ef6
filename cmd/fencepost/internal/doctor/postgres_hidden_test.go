package doctor_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/doctor"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// For a role without rights, checks of hidden settings do not pass.
func TestHiddenSettingsOfPostgresAreUnknown(t *testing.T) {
	t.Parallel()
	server := migrated(t)
	admin := session(t, server.URL())
	exec(t, admin, "CREATE ROLE stranger LOGIN")
	stranger := func(config *pgx.ConnConfig) { config.User = "stranger" }
	hidden := func() (checks []string) {
		report := examinePostgres(t, server.URL(), "", stranger)
		for _, f := range report.Findings {
			if f.Verdict != doctor.Pass {
				require.Equal(t, doctor.Unknown, of(t, report, f.Check).Verdict, "%+v", f)
				checks = append(checks, f.Check)
			}
		}
		return checks
	}
	require.Equal(t, []string{"schema"}, hidden())
	exec(t, admin, "REVOKE EXECUTE ON FUNCTION pg_is_in_recovery(), pg_visible_in_snapshot(xid8, pg_snapshot) FROM PUBLIC; REVOKE SELECT ON pg_stat_replication FROM PUBLIC")
	require.Equal(t, []string{"role", "locks", "standbys", "schema"}, hidden())
	exec(t, admin, "GRANT USAGE ON SCHEMA fencepost TO stranger")
	require.Equal(t, []string{"role", "locks", "standbys"}, hidden())
	for _, f := range examinePostgres(t, server.URL(), "", stranger).Findings {
		if f.Verdict == doctor.Unknown {
			require.Contains(t, f.Evidence, "42501", "the server's own words")
		}
	}
}

// Two checks need a second connection. The others have their answers.
func TestARoleWithOneConnectionHasAReport(t *testing.T) {
	t.Parallel()
	server := migrated(t)
	exec(t, session(t, server.URL()), "CREATE ROLE single LOGIN CONNECTION LIMIT 1; GRANT USAGE ON SCHEMA fencepost TO single")
	report := examinePostgres(t, server.URL(), "", func(config *pgx.ConnConfig) { config.User = "single" })
	for _, f := range report.Findings {
		if f.Check != "locks" && f.Check != "schema" {
			require.Equal(t, doctor.Pass, f.Verdict, "%+v", f)
			continue
		}
		require.Equal(t, doctor.Unknown, f.Verdict)
		require.Contains(t, f.Evidence, "53300")
		require.Equal(t, "allow this role two connections", f.Fix)
	}
}

func TestASchemaThatIsNotThereIsFound(t *testing.T) {
	t.Parallel()
	report := examinePostgres(t, testenv.PostgresURL(t), "nowhere", nil)
	found := of(t, report, "schema")
	require.Equal(t, doctor.Fail, found.Verdict)
	require.Equal(t, `schema "nowhere" is not there`, found.Evidence)
}

// hazard P8
func TestAPoolerIsFound(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	direct := examinePostgres(t, testenv.PostgresURL(t), schema, nil)
	require.Equal(t, doctor.Pass, of(t, direct, "pooler").Verdict)

	through := examinePostgres(t, testenv.PgBouncer(t), schema, nil)
	found := of(t, through, "pooler")
	require.Equal(t, doctor.Warn, found.Verdict)
	require.Contains(t, found.Evidence, ": a pooler in transaction mode")
	require.Contains(t, found.Fix, "default_query_exec_mode=exec")
	require.Equal(t, doctor.Pass, of(t, through, "schema").Verdict, "the other checks go through it")

	kept := of(t, examinePostgres(t, testenv.OwnPgBouncer(t, "", "pool_mode = session"), schema, nil), "pooler")
	require.Equal(t, doctor.Pass, kept.Verdict)
	require.Contains(t, kept.Evidence, "a pooler that keeps the session")
}

func TestAPostgresThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig("postgres://u:sekret@127.0.0.1:1/db")
	require.NoError(t, err)
	_, err = doctor.Postgres{Config: config}.Examine(t.Context())
	require.ErrorContains(t, err, "postgres at 127.0.0.1:1, database db cannot be used: ")
	require.False(t, strings.Contains(err.Error(), "sekret"))
}
