package doctor_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/internal/doctor"
	"github.com/fencepost/fencepost/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func examineRedis(t *testing.T, options redis.Options) *doctor.Report {
	t.Helper()
	options.PoolSize = 100_000 // so many failures to connect leave a goroutine behind
	report, err := doctor.Redis{Options: &options}.Examine(t.Context())
	require.NoError(t, err)
	return report
}

// examinePostgres is as the superuser, but for what set changes.
func examinePostgres(t *testing.T, url, schema string, set func(*pgx.ConnConfig)) *doctor.Report {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	if set != nil {
		set(config)
	}
	report, err := doctor.Postgres{Config: config, Schema: schema}.Examine(t.Context())
	require.NoError(t, err)
	return report
}

// of returns the finding of one check, which must be complete.
func of(t *testing.T, report *doctor.Report, check string) doctor.Finding {
	t.Helper()
	for _, f := range report.Findings {
		if f.Check == check {
			require.NotEmpty(t, f.Evidence)
			require.NotEmpty(t, f.Why)
			require.Equal(t, f.Verdict == doctor.Pass, f.Fix == "", "what does not pass has a fix: %+v", f)
			return f
		}
	}
	t.Fatalf("%s has no check %q", report.Server, check)
	return doctor.Finding{}
}

// alone requires that one check has that verdict, and all others pass.
func alone(t *testing.T, report *doctor.Report, check string, verdict doctor.Verdict, evidence string) doctor.Finding {
	t.Helper()
	for _, f := range report.Findings {
		if f.Check != check {
			require.Equal(t, doctor.Pass, f.Verdict, "%+v", f)
		}
	}
	found := of(t, report, check)
	require.Equal(t, verdict, found.Verdict, "%+v", found)
	require.Contains(t, found.Evidence, evidence)
	return found
}

// sound requires that everything passes.
func sound(t *testing.T, report *doctor.Report) {
	t.Helper()
	require.Equal(t, len(report.Findings), report.Count(doctor.Pass), "%+v", report)
}

// session is the superuser's, for changes.
func session(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	require.NoError(t, err, sql)
}

func run(t *testing.T, server *testenv.RedisServer, args ...any) {
	t.Helper()
	require.NoError(t, server.Client().Do(t.Context(), args...).Err(), args)
}
