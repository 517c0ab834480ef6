package doctor_test

import (
	"fmt"
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
		{[]string{"appendonly no", "appendonly yes"}, "persistence", doctor.Fail, `appendonly:no, appendfsync:always, no-appendfsync-on-rewrite:no, save:"": a restart loses everything`},
		{[]string{"appendonly no", "save 3600 1", "appendonly yes", "save ''"}, "persistence", doctor.Fail, "save:3600 1: a restart goes back to the last snapshot"},
		{[]string{"appendfsync no", "appendfsync always"}, "persistence", doctor.Fail, "appendfsync:no"},
		{[]string{"appendfsync everysec", "appendfsync always"}, "persistence", doctor.Warn, "appendfsync:everysec"},
		{[]string{"no-appendfsync-on-rewrite yes", "no-appendfsync-on-rewrite no"}, "persistence", doctor.Warn, "no-appendfsync-on-rewrite:yes"},
		{[]string{"maxmemory-policy allkeys-lru", "maxmemory-policy noeviction"}, "eviction", doctor.Warn, "maxmemory_policy:allkeys-lru, maxmemory:0"},
		{[]string{"maxmemory-policy allkeys-lru", "maxmemory 100mb", "maxmemory-policy noeviction", "maxmemory 0"}, "eviction", doctor.Fail, "are evicted"},
		{[]string{"maxmemory-policy volatile-ttl", "maxmemory 100mb", "maxmemory-policy noeviction", "maxmemory 0"}, "eviction", doctor.Fail, "locks have a ttl, and are evicted"},
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
				if setting, ok := strings.CutPrefix(order, "CONFIG SET "); ok {
					set([]string{setting})
				}
			}
			require.Equal(t, doctor.Pass, of(t, examineRedis(t, at(server)), c.check).Verdict, "its fix")
			set(c.settings[half:])
			sound(t, examineRedis(t, at(server)))
		})
	}
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
// A restart loses a setting that only the running server has.
func TestSettingsThatARestartForgetsAreFound(t *testing.T) {
	t.Parallel()
	const check, forgets = "settings", ": a restart may go back to the file or the command line"
	t.Run("without a file", func(t *testing.T) {
		t.Parallel()
		server := testenv.OwnRedis(t)
		require.Equal(t, doctor.Pass, of(t, examineRedis(t, at(server)), check).Verdict, "nothing was changed")
		run(t, server, "CONFIG", "SET", "appendonly", "yes")
		run(t, server, "CONFIG", "SET", "appendfsync", "always")
		require.Error(t, server.Client().ConfigRewrite(t.Context()).Err())
		alone(t, examineRedis(t, at(server)), check, doctor.Warn, `config_file:"", CONFIG SET 2 times, CONFIG REWRITE 0, CONFIG RESETSTAT 0`+forgets)
		run(t, server, "CONFIG", "RESETSTAT")
		require.Error(t, server.Client().ConfigRewrite(t.Context()).Err())
		alone(t, examineRedis(t, at(server)), check, doctor.Warn, "CONFIG SET 0 times, CONFIG REWRITE 0, CONFIG RESETSTAT 1"+forgets)
		server.Restart()
		report := examineRedis(t, at(server))
		require.Equal(t, doctor.Fail, of(t, report, "persistence").Verdict, "what the warning is about")
		require.Equal(t, doctor.Pass, of(t, report, check).Verdict)
	})
	t.Run("that were changed again after they were written", func(t *testing.T) {
		t.Parallel()
		server := testenv.OwnRedisWithFile(t, "--appendonly", "yes")
		run(t, server, "CONFIG", "SET", "appendfsync", "everysec")
		run(t, server, "CONFIG", "REWRITE")
		run(t, server, "CONFIG", "SET", "appendfsync", "always")
		found := alone(t, examineRedis(t, at(server)), check, doctor.Warn, "CONFIG SET 2 times, CONFIG REWRITE 1, CONFIG RESETSTAT 0"+forgets)
		server.Restart()
		persistence := of(t, examineRedis(t, at(server)), "persistence")
		require.Contains(t, persistence.Evidence, "appendonly:yes, appendfsync:everysec", "what the warning is about")

		run(t, server, "CONFIG", "SET", "appendfsync", "always")
		for _, order := range strings.Split(found.Fix, "; ")[:2] {
			command, argument, _ := strings.Cut(order, " ")
			run(t, server, command, argument)
		}
		alone(t, examineRedis(t, at(server)), check, doctor.Pass, "redis.conf")
		server.Restart()
		sound(t, examineRedis(t, at(server)))
	})
	t.Run("on command lines nothing is said against", func(t *testing.T) {
		t.Parallel()
		report := examineRedis(t, at(testenv.OwnRedis(t, healthy...)))
		for _, f := range report.Findings {
			require.Equal(t, doctor.Pass, f.Verdict, "%+v", f)
		}
	})
}

// hazard R1
func TestReplicasAreFound(t *testing.T) {
	t.Parallel()
	master, replica := testenv.OwnRedis(t, healthy...), testenv.OwnRedis(t, healthy...)
	replica.ReplicaOf(master)
	found := alone(t, examineRedis(t, at(master)), "replicas", doctor.Warn, "connected_slaves:1, min-replicas-to-write:0")
	require.Contains(t, found.Fix, "CONFIG SET min-replicas-to-write 1")
	run(t, master, "CONFIG", "SET", "min-replicas-max-lag", "600") // a replica that gets no processor lags
	run(t, master, "CONFIG", "SET", "min-replicas-to-write", "1")
	alone(t, examineRedis(t, at(master)), "replicas", doctor.Warn, "connected_slaves:1, min-replicas-to-write:1, min-replicas-max-lag:600")

	require.Equal(t, doctor.Fail, of(t, examineRedis(t, at(replica)), "role").Verdict)
}

func TestANodeOfAClusterIsFound(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, append(healthy, "--cluster-enabled", "yes")...)
	found := of(t, examineRedis(t, at(server)), "scripts")
	require.Equal(t, doctor.Fail, found.Verdict)
	require.Contains(t, found.Fix, "redis-cli --cluster fix", "no right is missing: %s", found.Evidence)
	run(t, server, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	require.Eventually(t, func() bool { return server.Client().Get(t.Context(), "a").Err() == redis.Nil }, testTime, tick)
	alone(t, examineRedis(t, at(server)), "role", doctor.Warn, "role:master, redis_mode:cluster: this node alone")
}

func TestACounterThatIsNoNumberIsFound(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, healthy...)
	run(t, server, "RPUSH", "fencepost:{0}:counter", "1")
	found := alone(t, examineRedis(t, at(server)), "scripts", doctor.Fail, "WRONGTYPE")
	require.Equal(t, "DEL fencepost:{0}:counter: numbers continue at the clock", found.Fix)
}
