package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunPassesTheStatusOn(t *testing.T) {
	t.Parallel()
	for name, lock := range runLocks(t) {
		for args, status := range map[string]int{
			"true": 0, "false": 1, "sh -c exit\t75": 75, "sh -c kill\t-9\t$$": 137, "sh -c kill\t-TERM\t$$": 143,
		} {
			t.Run(name+": "+args, func(t *testing.T) {
				t.Parallel()
				var command []string
				for _, arg := range strings.Fields(strings.ReplaceAll(args, "\t", "\x00")) {
					command = append(command, strings.ReplaceAll(arg, "\x00", " "))
				}
				done := lock.execute(t, "job/"+t.Name(), command...)
				require.Equal(t, status, done.status)
				require.Empty(t, done.out)
				require.Empty(t, done.err, "cron sends what is said by mail")
			})
		}
	}
}

func TestRunOfWhatCannotBeRun(t *testing.T) {
	t.Parallel()
	redis := runLocks(t)["redis"].flags
	for name, c := range map[string]struct {
		args   []string
		status int
		text   string
	}{
		"no name":               {redis, 125, "expected"},
		"no command":            {append(redis, "job", "--"), 125, "no command"},
		"an unknown flag":       {[]string{"--bad", "job", "true"}, 125, "unknown flag --bad"},
		"no store":              {[]string{"job", "true"}, 125, "give --redis=URL or --postgres=URL, or set FENCEPOST_REDIS_URL or FENCEPOST_POSTGRES_URL"},
		"two stores":            {append(redis, "--postgres", "postgres://h", "job", "true"), 125, "--redis and --postgres exclude each other"},
		"an empty flag":         {append(redis, "--postgres=", "job", "true"), 125, "--postgres is empty"},
		"no redis URL":          {[]string{"--redis", "sekret", "job", "true"}, 125, "not a redis:// URL"},
		"a redis without //":    {[]string{"--redis", "redis:u:sekret@locks:6379", "job", "true"}, 125, "--redis: not a redis:// URL with a host"},
		"redis is not there":    {[]string{"--redis", "redis://:sekret@127.0.0.1:1", "job", "true"}, 125, "redis at 127.0.0.1:1"},
		"a postgres without //": {[]string{"--postgres", "postgres:u:sekret@db:5432/shop?sslmode=disable", "job", "true"}, 125, "--postgres: neither a postgres:// URL"},
		"postgres is not there": {[]string{"--postgres", "postgres://:sekret@127.0.0.1:1", "job", "true"}, 125, "postgres cannot"},
		"a long grace":          {append(redis, "--ttl", "1s", "--grace", "1s", "job", "true"), 125, "a fifth of --ttl, 200ms"},
		"a ttl too short":       {append(redis, "--ttl", "1ms", "job", "true"), 125, "SafetyMargin"},
		"a negative wait":       {append(redis, "--wait=-1s", "job", "true"), 125, "negative"},
		"a held status":         {append(redis, "--held-status", "256", "job", "true"), 125, "0 to 255"},
		"no such program":       {append(redis, "job/1", "no-such-program"), 127, "no-such-program"},
		"no such path":          {append(redis, "job/2", "./no-such-program"), 127, "no-such-program"},
		"no program":            {append(redis, "job/3", "/"), 126, "/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := execute(t, append([]string{"run"}, c.args...)...)
			requireFailed(t, done, c.status, c.text)
		})
	}
}

func TestRunPassesStreamsAndArgumentsOn(t *testing.T) {
	t.Parallel()
	r := prepareRun(t, runLocks(t)["redis"], nil, "job", "sh", "-c", `cat; printf '[%s]' "$@"; echo err >&2`, "sh", "", "\xe4 is no UTF-8")
	r.cmd.Stdin = strings.NewReader("in\n")
	r.start()
	require.Zero(t, r.status())
	require.Equal(t, "in\n[][\xe4 is no UTF-8]", r.out.String())
	require.Equal(t, "err\n", r.errs.String())
}

// A program whose reader has closed the pipe must end by SIGPIPE. This command ignores
// SIGPIPE: if the program inherited that, it would continue.
func TestRunLetsAProgramEndWithItsReader(t *testing.T) {
	t.Parallel()
	done := runLocks(t)["redis"].execute(t, "job", "sh", "-c", "yes | head -n 1")
	require.Equal(t, "y\n", done.out)
	require.Empty(t, done.err, "yes would have said that its pipe is broken")
}
