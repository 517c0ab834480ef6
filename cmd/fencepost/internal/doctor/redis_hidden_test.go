package doctor_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/doctor"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

const (
	testTime = 2 * time.Minute // for what a server does in its own time
	tick     = 10 * time.Millisecond
)

// as returns the options of a user with few rights.
func as(t *testing.T, server *testenv.RedisServer, rules ...any) redis.Options {
	t.Helper()
	run(t, server, append([]any{"ACL", "SETUSER", "app", "on", ">sekret", "~*", "&*", "+@all"}, rules...)...)
	return redis.Options{Addr: server.Addr(), Username: "app", Password: "sekret"}
}

// Settings that a managed service hides do not pass.
func TestHiddenSettingsOfRedisAreUnknown(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, healthy...)
	t.Run("CONFIG", func(t *testing.T) {
		found := alone(t, examineRedis(t, as(t, server, "-config")), "persistence", doctor.Unknown, "NOPERM")
		require.Contains(t, found.Fix, "+config|get")
	})
	t.Run("CONFIG, where INFO shows enough", func(t *testing.T) {
		run(t, server, "CONFIG", "SET", "appendonly", "no")
		alone(t, examineRedis(t, as(t, server, "-config")), "persistence", doctor.Fail, "aof_enabled:0")
		run(t, server, "CONFIG", "SET", "appendonly", "yes")
	})
	t.Run("INFO and CONFIG", func(t *testing.T) {
		report := examineRedis(t, as(t, server, "-config", "-info"))
		for _, f := range report.Findings {
			switch f.Check {
			case "scripts", "clock":
				require.Equal(t, doctor.Pass, f.Verdict, "%+v", f)
			default:
				require.Equal(t, doctor.Unknown, f.Verdict, "%+v", f)
			}
		}
	})
	t.Run("replicas' settings", func(t *testing.T) {
		replica := testenv.OwnRedis(t)
		replica.ReplicaOf(server)
		report := examineRedis(t, as(t, server, "-config"))
		require.Equal(t, doctor.Unknown, of(t, report, "replicas").Verdict)
	})
	t.Run("the keys", func(t *testing.T) {
		options := as(t, server, "resetkeys", "~other:*")
		require.Equal(t, doctor.Fail, of(t, examineRedis(t, options), "scripts").Verdict)
	})
}

func TestARenamedCommandIsUnknown(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, append(healthy, "--rename-command", "CONFIG", "")...)
	alone(t, examineRedis(t, at(server)), "persistence", doctor.Unknown, "unknown command")
}

func TestScriptsThatAreRefusedAreFound(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, healthy...)
	alone(t, examineRedis(t, as(t, server, "-@scripting")), "scripts", doctor.Fail, "NOPERM")
}

func TestARedisThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	run(t, server, "CONFIG", "SET", "requirepass", "sekret")
	for _, options := range []redis.Options{{Addr: server.Addr()}, {Addr: server.Addr(), Password: "wrong"}, {Addr: "127.0.0.1:1"}} {
		options.MaxRetries = -1
		_, err := doctor.Redis{Options: &options}.Examine(t.Context())
		require.ErrorContains(t, err, "redis at "+options.Addr+" cannot be used: ")
	}
	sound(t, onlyFailing(t, examineRedis(t, redis.Options{Addr: server.Addr(), Password: "sekret"}), "persistence"))
}

// onlyFailing removes a finding, which must have failed.
func onlyFailing(t *testing.T, report *doctor.Report, check string) *doctor.Report {
	t.Helper()
	require.Equal(t, doctor.Fail, of(t, report, check).Verdict)
	rest := &doctor.Report{Server: report.Server}
	for _, f := range report.Findings {
		if f.Check != check {
			rest.Findings = append(rest.Findings, f)
		}
	}
	return rest
}

// Every answer of such a server is that error, which quotes the password.
func TestARedisWithARenamedAuthIsAnError(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, "--rename-command", "AUTH", "", "--rename-command", "HELLO", "")
	_, err := doctor.Redis{Options: &redis.Options{Addr: server.Addr(), Password: "sekret", MaxRetries: -1}}.Examine(t.Context())
	require.ErrorContains(t, err, "cannot be used: ERR unknown command 'auth'")
}
