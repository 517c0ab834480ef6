package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	redis := testenv.OwnRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	url := "redis://" + redis.Addr()
	set := func(name, value string) {
		require.NoError(t, redis.Client().ConfigSet(t.Context(), name, value).Err())
	}
	t.Run("is status 0 if everything passes", func(t *testing.T) {
		done := execute(t, "doctor", "--redis", url)
		require.Zero(t, done.status, done.out)
		require.Empty(t, done.err)
		require.Contains(t, done.out, "redis at "+redis.Addr()+"\n\n  pass  role         role:master, redis_mode:standalone\n")
		require.True(t, strings.HasSuffix(done.out, "7 pass, 0 warn, 0 fail, 0 unknown\n"), done.out)
	})
	t.Run("is status 0 with a warning", func(t *testing.T) {
		set("appendfsync", "everysec")
		done := execute(t, "doctor", "--redis", url)
		require.Zero(t, done.status, done.out)
		require.Contains(t, done.out, "warn: persistence\n  A restart loses locks, which are then ")
		require.Contains(t, done.out, "  fix: CONFIG SET appendonly yes; ")
		set("appendfsync", "always")
	})
	t.Run("is status 1 if a check fails", func(t *testing.T) {
		set("appendonly", "no")
		done := execute(t, "doctor", "--redis", url)
		require.Equal(t, 1, done.status)
		require.Empty(t, done.err)
		require.Contains(t, done.out, "  fail  persistence  appendonly:no, ")
		set("appendonly", "yes")
	})
	t.Run("is status 1 if the server hides a setting, unless that is allowed", func(t *testing.T) {
		require.NoError(t, redis.Client().Do(t.Context(), "ACL", "SETUSER", "app", "on", ">sekret", "~*", "&*", "+@all", "-config").Err())
		hidden := strings.Replace(url, "//", "//app:sekret@", 1)
		done := execute(t, "doctor", "--redis", hidden)
		require.Equal(t, 1, done.status)
		require.Contains(t, done.out, "  unknown  persistence  NOPERM ")
		require.NotContains(t, done.out, "sekret")
		require.Zero(t, execute(t, "doctor", "--redis", hidden, "--allow-unknown").status)
	})
	t.Run("prints one object", func(t *testing.T) {
		done := execute(t, "doctor", "--json", "--redis", url, "--redis", url)
		require.Zero(t, done.status)
		all := objects(t, done.out)
		require.Len(t, all, 1)
		require.Len(t, all[0]["servers"], 2)
		require.Equal(t, map[string]any{"pass": 12., "warn": 2., "fail": 0., "unknown": 0.}, all[0]["counts"])
		server := all[0]["servers"].([]any)[0].(map[string]any)
		require.Equal(t, "redis at "+redis.Addr(), server["server"])
		require.Equal(t, map[string]any{
			"check": "role", "verdict": "pass", "evidence": "role:master, redis_mode:standalone",
			"why": "A replica refuses every acquisition. Each master of a cluster has a part of the locks.",
		}, server["findings"].([]any)[0])
	})
	t.Run("is status 2 if one server does not answer, and reports the others", func(t *testing.T) {
		done := execute(t, "doctor", "--redis", url, "--postgres", "postgres://u:sekret@127.0.0.1:1/db")
		require.Equal(t, 2, done.status)
		require.Contains(t, done.out, "6 pass, 1 warn, ")
		require.Contains(t, done.err, "fencepost: postgres at 127.0.0.1:1, database db cannot be used: ")
		require.NotContains(t, done.err, "sekret")
	})
}

func TestDoctorOfPostgres(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	done := execute(t, "doctor", "--postgres", testenv.PostgresURL(t), "--schema", schema, "--json")
	require.Equal(t, 1, done.status, "the server of the tests does not wait for its disk")
	require.Contains(t, done.out, `"check":"fsync","verdict":"fail","evidence":"fsync is off`)
	require.Contains(t, done.out, `"check":"schema","verdict":"pass"`)
	require.NoError(t, pool.Ping(t.Context()))
}

func TestDoctorOfEtcd(t *testing.T) {
	t.Parallel()
	url := testenv.OwnEtcd(t).URL()
	done := execute(t, "doctor", "--etcd", url, "--prefix", "locks")
	require.Zero(t, done.status, done.out)
	require.Contains(t, done.out, "etcd at "+url+"\n\n  warn  members  1 have a vote; ")
	require.Contains(t, done.out, "  pass  rights   this user may read and write locks/\n")
	require.True(t, strings.HasSuffix(done.out, "2 pass, 1 warn, 0 fail, 0 unknown\n"), done.out)
}

func TestDoctorWithoutAServer(t *testing.T) {
	for _, name := range []string{"FENCEPOST_REDIS_URL", "FENCEPOST_POSTGRES_URL", "FENCEPOST_ETCD_URL"} {
		t.Setenv(name, "")
		require.NoError(t, os.Unsetenv(name))
	}
	for args, text := range map[string]string{
		"":                                  "give --redis=URL, --postgres=URL or --etcd=URL, or set FENCEPOST_REDIS_URL, FENCEPOST_POSTGRES_URL or FENCEPOST_ETCD_URL (see",
		"--etcd sekret:2379":                "--etcd: not an http:// or https:// URL with a host",
		"--redis localhost":                 "redis: not a redis:// URL",
		"--redis redis:u:sekret@locks:6379": "redis: not a redis:// URL with a host",
		"--postgres postgres://%zz":         "postgres: neither",
		"--postgres postgres:u:sekret@db:5432/shop?sslmode=disable": "postgres: neither",
		"--redis redis://:sekret@127.0.0.1:1":                       "redis at 127.0.0.1:1 cannot be used: ",
	} {
		done := execute(t, append([]string{"doctor"}, strings.Fields(args)...)...)
		requireFailed(t, done, 2, "fencepost: "+text)
	}
}
