package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token/etcdtoken"
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
		"no store":              {[]string{"job", "true"}, 125, "give --redis=URL, --postgres=URL or --etcd=URL, or set FENCEPOST_REDIS_URL, FENCEPOST_POSTGRES_URL or FENCEPOST_ETCD_URL"},
		"two stores":            {append(redis, "--postgres", "postgres://h", "job", "true"), 125, "--redis and --postgres exclude each other"},
		"an empty flag":         {append(redis, "--postgres=", "job", "true"), 125, "--postgres is empty"},
		"no redis URL":          {[]string{"--redis", "sekret", "job", "true"}, 125, "not a redis:// URL"},
		"a redis without //":    {[]string{"--redis", "redis:u:sekret@locks:6379", "job", "true"}, 125, "--redis: not a redis:// URL with a host"},
		"redis is not there":    {[]string{"--redis", "redis://:sekret@127.0.0.1:1", "job", "true"}, 125, "redis at 127.0.0.1:1"},
		"a postgres without //": {[]string{"--postgres", "postgres:u:sekret@db:5432/shop?sslmode=disable", "job", "true"}, 125, "--postgres: neither a postgres:// URL"},
		"postgres is not there": {[]string{"--postgres", "postgres://:sekret@127.0.0.1:1", "job", "true"}, 125, "postgres cannot"},
		"no tables":             {[]string{"--postgres", testenv.PostgresURL(t), "--schema", "fence_nowhere", "job", "true"}, 125, `run job: schema "fence_nowhere" lacks what the migrations make: run fencepost migrate up: `},
		"etcd is not there":     {[]string{"--etcd", "http://u:sekret@127.0.0.1:1,http://127.0.0.1:2", "job", "true"}, 125, "etcd cannot be used"},
		"an etcd without //":    {[]string{"--etcd", "sekret:2379", "job", "true"}, 125, "--etcd: not an http:// or https:// URL with a host"},
		"two passwords":         {[]string{"--etcd", "http://u:sekret@a,http://u:sekret@b", "job", "true"}, 125, "--etcd: not an http://"},
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

// The lock is in an etcd that requires a password.
func TestRunOnEtcd(t *testing.T) {
	t.Parallel()
	url := testenv.OwnEtcd(t).URL()
	postEtcd(t, url+"/v3/auth/user/add", `{"name": "root", "password": "sekret"}`)
	postEtcd(t, url+"/v3/auth/user/grant", `{"user": "root", "role": "root"}`)
	postEtcd(t, url+"/v3/auth/enable", `{}`)
	lock := runLock{url: strings.Replace(url, "//", "//root:sekret@", 1), flag: "--etcd", own: []string{"--prefix", "cron"}}
	lock = lock.at(lock.url)

	other := etcdtoken.New(etcdtoken.Config{Endpoints: []string{url}, User: "root", Password: "sekret", Prefix: "cron/"})
	held, err := other.Acquire(t.Context(), "report", "other", time.Hour)
	require.NoError(t, err)
	require.Equal(t, 75, lock.execute(t, "report", "true").status)
	require.NoError(t, other.Release(t.Context(), held.Token))
	lock.flags = lock.own
	r := prepareRun(t, lock, nil, "report", "env")
	r.cmd.Env = append(r.cmd.Env, "FENCEPOST_ETCD_URL="+lock.url)
	require.NoError(t, r.cmd.Run(), r.errs.String())
	require.Contains(t, r.out.String(), "FENCING_RESOURCE=report\n")
	require.NotContains(t, r.out.String(), "sekret")
	state, err := other.Inspect(t.Context(), "report")
	require.NoError(t, err)
	require.Empty(t, state.Holder)
	require.Greater(t, state.Number, held.Token.Number)

	denied := lock.at(strings.Replace(url, "//", "//root:sekret2@", 1)).execute(t, "report", "true")
	requireFailed(t, denied, 125, "etcd cannot be used: etcdtoken: ")
}

// postEtcd sends an administrator's request.
func postEtcd(t *testing.T, url, body string) {
	t.Helper()
	reply, err := http.Post(url, "", strings.NewReader(body))
	require.NoError(t, err)
	require.NoError(t, reply.Body.Close())
	require.Equal(t, http.StatusOK, reply.StatusCode)
}
