package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The servers of these tests do not answer: the error tells which of them the command uses.
func TestAFlagTakesPrecedenceOverTheVariablesOfOtherServers(t *testing.T) {
	t.Parallel()
	const (
		redis, redisURL       = "--redis redis://127.0.0.1:1 ", "FENCEPOST_REDIS_URL=redis://127.0.0.1:2"
		postgres, postgresURL = "--postgres postgres://127.0.0.1:1/flag ", "FENCEPOST_POSTGRES_URL=postgres://127.0.0.1:2/variable"
		mysql, mysqlDSN       = "--mysql u@tcp(127.0.0.1:1)/flag ", "FENCEPOST_MYSQL_DSN=u@tcp(127.0.0.1:2)/variable"
		memory                = "FENCEPOST_PROXY_DANGEROUSLY_MEMORY=true"
		proxy                 = "proxy --upstream http://127.0.0.1:1 --resource a --listen 256.0.0.1:1 "
	)
	for name, c := range map[string]struct {
		args, variables string
		says            string
		not             string // what the error does not say
	}{
		"run, a Redis":                    {"run " + redis + "job true", postgresURL, "redis at 127.0.0.1:1 cannot be used", ""},
		"run, a PostgreSQL":               {"run " + postgres + "job true", redisURL, "postgres cannot be used", ""},
		"run, its own variable too":       {"run " + redis + "job true", postgresURL + " " + redisURL, "redis at 127.0.0.1:1 cannot be used", ""},
		"run, a variable":                 {"run job true", redisURL + " FENCEPOST_POSTGRES_URL=", "redis at 127.0.0.1:2 cannot be used", ""},
		"run, two flags":                  {"run " + redis + postgres + "job true", "", "--redis and --postgres exclude each other", ""},
		"run, two variables":              {"run job true", redisURL + " " + postgresURL, "FENCEPOST_REDIS_URL and FENCEPOST_POSTGRES_URL exclude each other: give --redis=URL, --postgres=URL or --etcd=URL", ""},
		"run, an empty flag":              {"run --redis= job true", postgresURL, "--redis is empty", ""},
		"run, an empty flag, its own":     {"run --redis= job true", redisURL, "--redis is empty", ""},
		"marks, a PostgreSQL":             {"marks list " + postgres, mysqlDSN, "postgres cannot be used", ""},
		"marks, in front of the command":  {"marks " + postgres + "list", mysqlDSN, "postgres cannot be used", ""},
		"marks, a MySQL":                  {"marks list " + mysql, postgresURL + " FENCEPOST_SCHEMA=variable", "mysql at 127.0.0.1:1, database flag cannot be used", ""},
		"marks, the text of the variable": {"marks list --postgres postgres://127.0.0.1:2/variable", mysqlDSN + " " + postgresURL, "postgres cannot be used", ""},
		"marks, two variables":            {"marks list", postgresURL + " " + mysqlDSN, "FENCEPOST_POSTGRES_URL and FENCEPOST_MYSQL_DSN exclude each other", ""},
		"marks, an empty variable":        {"marks list", mysqlDSN + " FENCEPOST_POSTGRES_URL=", "database variable cannot be used", ""},
		"marks, an empty flag":            {"marks list --postgres=", mysqlDSN, "--postgres is empty", ""},
		"marks, an empty DSN":             {"marks list --mysql=", postgresURL, "--mysql is empty", ""},
		"migrate, a PostgreSQL":           {"migrate check " + postgres, mysqlDSN, "postgres cannot be used", ""},
		"migrate, a MySQL":                {"migrate up " + mysql, postgresURL, "mysql at 127.0.0.1:1, database flag cannot be used", ""},
		"proxy, a store":                  {proxy + "--store redis://127.0.0.1:1", memory, "redis at 127.0.0.1:1 cannot be used", ""},
		"proxy, two variables":            {proxy, memory + " FENCEPOST_STORE=redis://127.0.0.1:2", "FENCEPOST_STORE and FENCEPOST_PROXY_DANGEROUSLY_MEMORY exclude each other", ""},
		"proxy, an empty store":           {proxy + "--store=", memory, "--store is empty", ""},
		"proxy, no memory":                {proxy + "--dangerously-memory=false", "FENCEPOST_STORE=redis://127.0.0.1:2", "redis at 127.0.0.1:2 cannot be used", ""},
		"locks, a Redis":                  {"locks list " + redis, postgresURL, "redis at 127.0.0.1:1 cannot be used", ""},
		"locks, a variable":               {"locks show a", "FENCEPOST_REDIS_URL= " + postgresURL, "postgres cannot be used", ""},
		"doctor, a flag":                  {"doctor " + redis, postgresURL, "redis at 127.0.0.1:1 cannot be used", "postgres"},
		"doctor, two flags":               {"doctor " + redis + postgres, redisURL + " " + postgresURL, "postgres at 127.0.0.1:1, database flag cannot be used", ":2"},
		"doctor, two variables":           {"doctor", redisURL + " " + postgresURL, "postgres at 127.0.0.1:2, database variable cannot be used", "exclude"},
		"doctor, an empty variable":       {"doctor", "FENCEPOST_REDIS_URL= " + postgresURL, "postgres at 127.0.0.1:2", "redis"},
		"simulate, an etcd":               {"simulate --etcd http://127.0.0.1:1", redisURL, "etcd cannot be used", ""},
		"simulate has one lock":           {"simulate --etcd http://127.0.0.1:1 " + redis, "", "--redis and --etcd exclude each other", ""},
		"simulate has two":                {"simulate --postgres= --redis redis://127.0.0.1:1", redisURL + " FENCEPOST_SIMULATE_POSTGRES=postgres://127.0.0.1:2/x", "redis at 127.0.0.1:1 cannot be used", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, _ := command(t, strings.Fields(c.args)...)
			var errs bytes.Buffer
			cmd.Stderr, cmd.Env = &errs, append(cmd.Env, strings.Fields(c.variables)...)
			require.Error(t, cmd.Run())
			require.Contains(t, errs.String(), c.says)
			if c.not != "" {
				require.NotContains(t, errs.String(), c.not)
			}
		})
	}
	require.Empty(t, os.Getenv("FENCEPOST_POSTGRES_URL")+os.Getenv("FENCEPOST_REDIS_URL")+os.Getenv("FENCEPOST_MYSQL_DSN"))
}
