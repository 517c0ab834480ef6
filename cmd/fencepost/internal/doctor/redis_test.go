package doctor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/doctor"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// healthy are settings with which every check passes.
var healthy = []string{"--appendonly", "yes", "--appendfsync", "always"}

func at(server *testenv.RedisServer) redis.Options { return redis.Options{Addr: server.Addr()} }

// hazard R3
func TestEachSettingOfRedisHasItsCheck(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, healthy...)
	sound(t, examineRedis(t, at(server)))
	for _, c := range []struct {
		settings []string // and what sets them back
		check    string
		verdict  doctor.Verdict
		evidence string
	}{
		{[]string{"appendonly no", "appendonly yes"}, "persistence", doctor.Fail, `appendonly no, appendfsync always, no-appendfsync-on-rewrite no, save "": a restart loses everything`},
		{[]string{"appendonly no", "save 3600 1", "appendonly yes", "save ''"}, "persistence", doctor.Fail, "save 3600 1: a restart goes back to the last snapshot"},
		{[]string{"appendfsync no", "appendfsync always"}, "persistence", doctor.Fail, "appendfsync no"},
		{[]string{"appendfsync everysec", "appendfsync always"}, "persistence", doctor.Warn, "appendfsync everysec"},
		{[]string{"no-appendfsync-on-rewrite yes", "no-appendfsync-on-rewrite no"}, "persistence", doctor.Warn, "no-appendfsync-on-rewrite yes"},
		{[]string{"maxmemory-policy allkeys-lru", "maxmemory-policy noeviction"}, "eviction", doctor.Warn, "maxmemory_policy:allkeys-lru maxmemory:0"},
		{[]string{"maxmemory-policy allkeys-lru", "maxmemory 100mb", "maxmemory-policy noeviction", "maxmemory 0"}, "eviction", doctor.Fail, "locks and counters are evicted"},
		{[]string{"maxmemory-policy volatile-ttl", "maxmemory 100mb", "maxmemory-policy noeviction", "maxmemory 0"}, "eviction", doctor.Fail, "locks have a ttl, and are evicted"},
		{[]string{"maxmemory 500kb", "maxmemory 0"}, "memory", doctor.Warn, "% are used"},
	} {
		t.Run(strings.Join(c.settings[:len(c.settings)/2], ", "), func(t *testing.T) {
			set := func(settings []string) {
				for _, setting := range settings {
					name, value, _ := strings.Cut(setting, " ")
					run(t, server, "CONFIG", "SET", name, strings.Trim(value, "'"))
				}
			}
			half := len(c.settings) / 2
			set(c.settings[:half])
			found := alone(t, examineRedis(t, at(server)), c.check, c.verdict, c.evidence)
			for order := range strings.SplitSeq(found.Fix, "; ") {
				if setting, ok := strings.CutPrefix(order, "CONFIG SET "); ok && !strings.Contains(setting, " to more") {
					set([]string{setting})
				}
			}
			if c.check != "memory" {
				require.Equal(t, doctor.Pass, of(t, examineRedis(t, at(server)), c.check).Verdict, "its fix")
			}
			set(c.settings[half:])
			sound(t, examineRedis(t, at(server)))
		})
	}
}

// hazard R3
func TestACounterThatExpiresIsFound(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, healthy...)
	run(t, server, "SET", "fencepost:{7}:counter", "1")
	found := alone(t, examineRedis(t, at(server)), "counters", doctor.Pass, `1 counters of prefix "fencepost" without a ttl`)
	require.Empty(t, found.Fix)
	run(t, server, "EXPIRE", "fencepost:{7}:counter", "3600")
	found = alone(t, examineRedis(t, at(server)), "counters", doctor.Fail, "1 with one: fencepost:{7}:counter")
	require.Contains(t, found.Fix, "PERSIST fencepost:{7}:counter")
}

func TestAnEvictionOfBeforeIsFound(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, append(healthy, "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random")...)
	for i := 0; of(t, examineRedis(t, at(server)), "eviction").Verdict == doctor.Fail && i < 20; i++ {
		run(t, server, "SET", fmt.Sprintf("filler:%d", i), strings.Repeat("x", 500_000))
	}
	run(t, server, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	run(t, server, "CONFIG", "SET", "maxmemory", "0")
	alone(t, examineRedis(t, at(server)), "eviction", doctor.Warn, "keys were evicted before")
}

// hazard R2
func TestStressADiskThatFailsIsFound(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, healthy...)
	folder := server.Client().ConfigGet(t.Context(), "dir").Val()["dir"]
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "dump.rdb", "in the way"), 0o755))
	run(t, server, "BGSAVE")
	require.Eventually(t, func() bool {
		return of(t, examineRedis(t, at(server)), "disk").Verdict == doctor.Fail
	}, testTime, tick)
	alone(t, examineRedis(t, at(server)), "disk", doctor.Fail, "rdb_last_bgsave_status:err")
}

// hazard R2
// A restart loses a setting that only the running server has.
func TestSettingsThatARestartForgetsAreFound(t *testing.T) {
	t.Parallel()
	const check = "settings"
	change := func(server *testenv.RedisServer) {
		run(t, server, "CONFIG", "SET", "appendonly", "yes")
		run(t, server, "CONFIG", "SET", "appendfsync", "always")
	}
	t.Run("without a file", func(t *testing.T) {
		t.Parallel()
		server := testenv.OwnRedis(t)
		require.Equal(t, doctor.Pass, of(t, examineRedis(t, at(server)), check).Verdict, "nothing was changed")
		change(server)
		require.Error(t, server.Client().ConfigRewrite(t.Context()).Err())
		alone(t, examineRedis(t, at(server)), check, doctor.Warn,
			"config_file:, CONFIG SET 2 times, CONFIG REWRITE 0: settings were changed since the start, and not written, and there is no file: a restart goes back to the command line")
		run(t, server, "CONFIG", "RESETSTAT")
		alone(t, examineRedis(t, at(server)), check, doctor.Warn, "CONFIG RESETSTAT has removed")
		server.Restart()
		report := examineRedis(t, at(server))
		require.Equal(t, doctor.Fail, of(t, report, "persistence").Verdict, "what the warning is about")
		require.Equal(t, doctor.Pass, of(t, report, check).Verdict)
	})
	t.Run("with a file", func(t *testing.T) {
		t.Parallel()
		server := testenv.OwnRedisWithFile(t, healthy...)
		found := alone(t, examineRedis(t, at(server)), check, doctor.Pass, "no setting was changed since the start")
		require.Contains(t, found.Evidence, "redis.conf")
		change(server)
		found = alone(t, examineRedis(t, at(server)), check, doctor.Warn, "not written: a restart goes back to the file")
		require.Equal(t, "CONFIG REWRITE", found.Fix)
		run(t, server, "CONFIG", "RESETSTAT")
		require.Equal(t, doctor.Warn, of(t, examineRedis(t, at(server)), check).Verdict)
		run(t, server, "CONFIG", "REWRITE")
		alone(t, examineRedis(t, at(server)), check, doctor.Pass, "CONFIG SET 0 times, CONFIG REWRITE 1")
	})
	t.Run("that were changed again after they were written", func(t *testing.T) {
		t.Parallel()
		server := testenv.OwnRedisWithFile(t, "--appendonly", "yes")
		run(t, server, "CONFIG", "SET", "appendfsync", "everysec")
		run(t, server, "CONFIG", "REWRITE")
		run(t, server, "CONFIG", "SET", "appendfsync", "always")
		found := alone(t, examineRedis(t, at(server)), check, doctor.Warn, "CONFIG SET 2 times, CONFIG REWRITE 1: the server does not show which came last")
		server.Restart()
		persistence := of(t, examineRedis(t, at(server)), "persistence")
		require.Contains(t, persistence.Evidence, "appendonly yes, appendfsync everysec", "what the warning is about")

		run(t, server, "CONFIG", "SET", "appendfsync", "always")
		run(t, server, "CONFIG", "REWRITE")
		alone(t, examineRedis(t, at(server)), check, doctor.Warn, "which came last")
		for order := range strings.SplitSeq(found.Fix, "; ") {
			command, argument, _ := strings.Cut(order, " ")
			run(t, server, command, argument)
		}
		alone(t, examineRedis(t, at(server)), check, doctor.Pass, "CONFIG SET 0 times, CONFIG REWRITE 1")
		server.Restart()
		sound(t, examineRedis(t, at(server)))
	})
	t.Run("on command lines nothing is said against", func(t *testing.T) {
		t.Parallel()
		server := testenv.OwnRedis(t, healthy...)
		report := examineRedis(t, at(server))
		require.Equal(t, len(report.Findings), report.Count(doctor.Pass), "%+v", report)
	})
}

// hazard R1
func TestReplicasAreFound(t *testing.T) {
	t.Parallel()
	master, replica := testenv.OwnRedis(t, healthy...), testenv.OwnRedis(t, healthy...)
	replica.ReplicaOf(master)
	found := alone(t, examineRedis(t, at(master)), "replicas", doctor.Warn, "connected_slaves:1; min-replicas-to-write 0")
	require.Contains(t, found.Fix, "CONFIG SET min-replicas-to-write 1")
	run(t, master, "CONFIG", "SET", "min-replicas-max-lag", "600") // a replica that gets no processor lags
	run(t, master, "CONFIG", "SET", "min-replicas-to-write", "1")
	alone(t, examineRedis(t, at(master)), "replicas", doctor.Warn, "connected_slaves:1; min-replicas-to-write 1, min-replicas-max-lag 600")

	require.Equal(t, doctor.Fail, of(t, examineRedis(t, at(replica)), "role").Verdict)
	run(t, replica, "CONFIG", "SET", "replica-read-only", "no")
	found = of(t, examineRedis(t, at(replica)), "role")
	require.Contains(t, found.Evidence, "role:slave, replica-read-only no")
	require.Contains(t, found.Fix, "CONFIG SET replica-read-only yes")
}

func TestAClusterIsFound(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, append(healthy, "--cluster-enabled", "yes")...)
	require.Equal(t, doctor.Fail, of(t, examineRedis(t, at(server)), "cluster").Verdict, "it has no slots yet")
	run(t, server, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	require.Eventually(t, func() bool {
		return of(t, examineRedis(t, at(server)), "cluster").Verdict == doctor.Pass
	}, testTime, tick)
	sound(t, examineRedis(t, at(server)))
}
