package doctor_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/doctor"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

func TestMain(m *testing.M) {
	testenv.AtOnce(4) // these tests wait for servers that start
	leaktest.Main(m)
}

func examineRedis(t *testing.T, options redis.Options) *doctor.Report {
	t.Helper()
	options.PoolSize = 100_000 // so many failures to connect leave a goroutine behind
	report, err := doctor.Redis{Options: &options}.Examine(t.Context())
	require.NoError(t, err)
	return report
}

// examinePostgres examines as the superuser, with the changes that set makes.
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

// alone requires that one check has that verdict, and all others pass, except the check
// "settings", which warns of settings that a test changes at run time.
func alone(t *testing.T, report *doctor.Report, check string, verdict doctor.Verdict, evidence string) doctor.Finding {
	t.Helper()
	for _, f := range report.Findings {
		if f.Check != check && f.Check != "settings" {
			require.Equal(t, doctor.Pass, f.Verdict, "%+v", f)
		}
	}
	found := of(t, report, check)
	require.Equal(t, verdict, found.Verdict, "%+v", found)
	require.Contains(t, found.Evidence, evidence)
	return found
}

// sound requires that everything passes, as in alone.
func sound(t *testing.T, report *doctor.Report) {
	t.Helper()
	first := report.Findings[0]
	alone(t, report, first.Check, doctor.Pass, first.Evidence)
}

// session returns a session of the superuser, for changes.
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
