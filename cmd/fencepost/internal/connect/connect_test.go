package connect

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARedisURLHasAHost(t *testing.T) {
	t.Parallel()
	for url, addr := range map[string]string{
		"redis://locks": "locks:6379", "rediss://u:sekret@locks:1/2?protocol=2": "locks:1", "redis://[::1]:1": "[::1]:1", "unix:///run/redis.sock?db=1": "/run/redis.sock",
		"redis:locks:6379": "", "rediss:u:sekret@locks": "", "redis:": "", "redis://": "", "redis://:6379": "", "redis://u:sekret@:6379/0": "", "redis:///0": "",
		"unix:run/redis.sock": "", "unix://locks": "", "locks:6379": "", "redis://u:sekret@locks:x": "",
	} {
		options, err := RedisOptions(url, "--redis")
		if addr == "" {
			require.ErrorContains(t, err, "--redis: not a redis:// URL with a host, as redis://host:6379", url)
			require.NotContains(t, err.Error(), "sekret")
			continue
		}
		require.NoError(t, err, url)
		require.Equal(t, addr, options.Addr)
	}
}

func TestWhatPgxTakesForAKeyword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres:u:sekret@h:5432/d?sslmode=disable", "Postgres://u:sekret@h/d?sslmode=disable", " postgres://u:sekret@h/d?sslmode=disable",
		"postgresql+psycopg2://u:sekret@h/d?sslmode=disable", "jdbc:postgresql://h/d?user=u&password=sekret", "u:sekret@h/d?sslmode=disable",
	} {
		_, err := PostgresConfig(url, "")
		require.ErrorContains(t, err, "postgres: neither a postgres:// URL nor keyword=value pairs", url)
		require.NotContains(t, err.Error(), "sekret")
	}
	for _, url := range []string{" host = /run/postgresql user=a password='x:/@ ='", "postgresql:///d?host=/run"} {
		_, err := PostgresConfig(url, "")
		require.NoError(t, err, url)
	}
}

func TestTheServerGetsTheApplicationsName(t *testing.T) {
	t.Parallel()
	for url, name := range map[string]string{
		"postgres://h/d": "fencepost doctor",
		"postgres://h/d?application_name=fencepost%20migrate": "fencepost migrate",
		"host=h application_name=mine":                        "mine",
	} {
		config, err := PostgresConfig(url, "fencepost doctor")
		require.NoError(t, err)
		require.Equal(t, name, config.RuntimeParams["application_name"])
	}
}
