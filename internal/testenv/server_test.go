package testenv_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

func TestAServerForProgramsHasItsSettingsAndEnds(t *testing.T) {
	t.Parallel()
	s, err := testenv.StartPostgres("fsync=on", "max_wal_size=2GB")
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), s.URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var settings string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_setting('fsync') || ' ' || current_setting('max_wal_size')").Scan(&settings))
	require.Equal(t, "on 2GB", settings)

	require.NoError(t, s.Stop())

	require.Eventually(t, func() bool { return conn.Ping(t.Context()) != nil }, 30*time.Second, 10*time.Millisecond)
}

func TestARedisForProgramsEnds(t *testing.T) {
	t.Parallel()
	s, err := testenv.StartRedis()
	require.NoError(t, err)
	options, err := redis.ParseURL(s.URL)
	require.NoError(t, err)
	client := redis.NewClient(options)
	defer client.Close()
	require.NoError(t, client.Ping(t.Context()).Err())
	require.NoError(t, s.Stop())
	require.Eventually(t, func() bool { return client.Ping(t.Context()).Err() != nil }, 30*time.Second, 10*time.Millisecond)
}
