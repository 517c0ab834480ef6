package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// Logs keep what a command prints.
func TestNoCommandPrintsAPassword(t *testing.T) {
	t.Parallel()
	redis, postgres := "redis://app:sekret@127.0.0.1:1", "postgres://app:sekret@127.0.0.1:1/db"
	nameless := testenv.OwnRedis(t, "--rename-command", "AUTH", "", "--rename-command", "HELLO", "")
	unauthenticated := "redis://app:sekret@" + nameless.Addr()
	for name, args := range map[string][]string{
		"a URL without its flag":                {"doctor", redis},
		"a URL without its command":             {postgres},
		"a URL in another flag":                 {"run", "--ttl=" + redis, "job", "true"},
		"a URL for a truth value":               {"doctor", "--json=" + redis},
		"a URL for a number":                    {"marks", "list", "--limit", postgres},
		"a URL in a flag that does not exist":   {"run", "--rediss=" + redis, "job", "true"},
		"a URL for the lock's name":             {"run", "--redis", redis, redis, "true"},
		"a URL with a password in its query":    {"migrate", "up", "postgres://127.0.0.1:1/db?user=app&password=sekret&port=1"},
		"a URL with a password of any kind":     {"migrate", "up", "postgres://app:/@sekret@127.0.0.1/db"},
		"a DSN without its flag":                {"marks", "list", "app:sekret@tcp(127.0.0.1:1)/db"},
		"a DSN without an address":              {"marks", "list", "app:sekret@/db"},
		"a DSN with a protocol alone":           {"marks", "list", "--limit", "app:sekret@tcp/db"},
		"settings without their flag":           {"marks", "list", "host=127.0.0.1 port=1 password = 'my \\' sekret'"},
		"settings that are taken for a host":    {"marks", "list", "--postgres=host=127.0.0.1,password=sekret port=1"},
		"settings without their quotes":         {"marks", "list", "--postgres", "host=127.0.0.1", "password=sekret"},
		"run, of a Redis that is not there":     {"run", "--redis", redis, "-v", "job", "true"},
		"run, of a PostgreSQL not there":        {"run", "--postgres", postgres, "-v", "job", "true"},
		"run, of a Redis without AUTH":          {"run", "--redis", unauthenticated, "job", "true"},
		"doctor, of a Redis without AUTH":       {"doctor", "--redis", unauthenticated},
		"doctor in JSON, of one without AUTH":   {"doctor", "--json", "--redis", unauthenticated},
		"simulate, of a Redis without AUTH":     {"simulate", "--redis", unauthenticated},
		"proxy, of a Redis without AUTH":        {"proxy", "--store", unauthenticated, "--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0"},
		"proxy, of a PostgreSQL not there":      {"proxy", "--store", postgres, "--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0"},
		"proxy, of an upstream with a password": {"proxy", "--store", redis, "--upstream", "http://app:sekret@127.0.0.1:1", "--listen", "127.0.0.1:0"},
		"migrate, of a PostgreSQL not there":    {"migrate", "status", "--postgres", postgres},
		"marks, of a PostgreSQL not there":      {"marks", "show", "job", "--postgres", postgres},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := execute(t, args...)
			require.NotZero(t, done.status)
			require.NotContains(t, done.out+done.err, "sekret")
			require.NotEmpty(t, done.err)
		})
	}
	t.Run("what does no harm stays", func(t *testing.T) {
		t.Parallel()
		text := `run user:a@b: "redis://127.0.0.1:1": dial tcp 127.0.0.1:1: FATAL: password authentication failed for user "app" (SQLSTATE 28P01)`
		require.Equal(t, text, cli.Redacted(text))
		require.Equal(t, "redis://…@h:1 and redis://…@i", cli.Redacted("redis://:p@h:1 and redis://u:p@i"))
	})
}
