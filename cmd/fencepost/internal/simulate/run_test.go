package simulate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/simulate"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// asWriter makes this test binary a writer's process, as the command has one.
const asWriter = "writer"

func TestMain(m *testing.M) {
	if len(os.Args) != 2 || os.Args[1] != asWriter {
		leaktest.Main(m)
		return
	}
	if err := simulate.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const rounds = 2

func options(t *testing.T) simulate.Options {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return simulate.Options{Rounds: rounds, TTL: 100 * time.Millisecond, Writer: []string{self, asWriter}}
}

// hazard G1
// hazard G2
func TestRunOnEmbeddedServers(t *testing.T) {
	t.Parallel()
	report, err := simulate.Run(t.Context(), options(t))
	require.NoError(t, err)
	require.Equal(t, "redis (embedded)", report.Issuer)
	require.Equal(t, "sqlite (embedded)", report.Store)
	requireFenced(t, report)
}

func TestRunOnRealServers(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Redis, o.Postgres = testenv.RedisURL(t), testenv.PostgresURL(t)
	report, err := simulate.Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, "redis", report.Issuer)
	require.Equal(t, "postgres", report.Store)
	requireFenced(t, report)
}

func TestRunWithEveryPause(t *testing.T) {
	t.Parallel()
	for pause, possible := range map[subprocess.Pause]bool{
		subprocess.SelfStopped:     subprocess.CanStopThread,
		subprocess.StoppedByParent: subprocess.CanStop,
		subprocess.InProcess:       true,
	} {
		if !possible {
			continue
		}
		t.Run(fmt.Sprint(int(pause), " ", pause), func(t *testing.T) {
			t.Parallel()
			o := options(t)
			o.Rounds, o.Pause = 1, pause
			report, err := simulate.Run(t.Context(), o)
			require.NoError(t, err)
			require.Equal(t, pause.String(), report.Pause)
			requireCounts(t, report, 1)
		})
	}
}

// If the ttl is hardly longer than the machine needs for a round, the report must contain
// no figure that was not measured.
func TestRunWithTheShortestTTL(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.TTL = simulate.MinTTL
	report, err := simulate.Run(t.Context(), o)
	require.NoError(t, err)
	requireFenced(t, report)
}

// requireFenced requires that in every round the naive ways accept the stale write and
// lose the successor's, and that the guard refuses the stale write.
func requireFenced(t *testing.T, report *simulate.Report) {
	t.Helper()
	require.Equal(t, rounds, report.Rounds)
	requireCounts(t, report, rounds)
	require.True(t, report.Fenced())
	require.True(t, report.Corrupted())
}

func requireCounts(t *testing.T, report *simulate.Report, n int) {
	t.Helper()
	require.Len(t, report.Runs, 4)
	for _, way := range []simulate.Way{simulate.Unguarded, simulate.Recheck, simulate.CheckThenWrite} {
		count := report.Of(way)
		require.Equal(t, []string{"B+20"}, count.Example.Lost(), way)
		require.Equal(t, []int{n, n, n, 0}, figures(count), way)
	}
	require.Empty(t, report.Of(simulate.Guarded).Example.Lost())
	require.Equal(t, []int{n, 0, 0, n}, figures(report.Of(simulate.Guarded)))
}

func figures(c simulate.Count) []int {
	return []int{c.StaleAttempted, c.StaleAccepted, c.UpdatesLost, c.Refused}
}

var errEnough = errors.New("enough")

// A run that ends in the middle of a round, at any step, leaves nothing on its servers.
func TestACancelledRunRemovesEverything(t *testing.T) {
	t.Parallel()
	for _, moment := range []simulate.Kind{simulate.Asks, simulate.Stopped, simulate.Continued} {
		t.Run("when a writer "+string(moment), func(t *testing.T) {
			t.Parallel()
			o := options(t)
			o.Redis, o.Postgres = testenv.RedisURL(t), testenv.PostgresURL(t)
			before := remains(t, o)
			ctx, cancel := context.WithCancelCause(t.Context())
			var during []string
			o.Observe = func(at simulate.Progress) {
				if at.Way == simulate.Guarded && at.Event.Kind == moment {
					during = remains(t, o)
					cancel(errEnough)
				}
			}
			report, err := simulate.Run(ctx, o)
			require.ErrorIs(t, err, errEnough)
			require.Nil(t, report)
			requireRemoved(t, o, before, during)
		})
	}
}

func TestAFinishedRunRemovesEverything(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Redis, o.Postgres = testenv.RedisURL(t), testenv.PostgresURL(t)
	before := remains(t, o)
	var during []string
	o.Observe = func(at simulate.Progress) {
		if during == nil && at.Event.Kind == simulate.Stopped {
			during = remains(t, o)
		}
	}
	_, err := simulate.Run(t.Context(), o)
	require.NoError(t, err)
	requireRemoved(t, o, before, during)
}

// requireRemoved requires that everything created since the start of the run is removed.
// Other tests on the same servers remove their own objects too, in time.
func requireRemoved(t *testing.T, o simulate.Options, before, during []string) {
	t.Helper()
	made := slices.ContainsFunc(during, func(name string) bool { return !slices.Contains(before, name) })
	require.True(t, made, "the run made something")
	suspects := append(during, remains(t, o)...)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		now := remains(t, o)
		left := slices.DeleteFunc(slices.Clone(suspects), func(name string) bool {
			return slices.Contains(before, name) || !slices.Contains(now, name)
		})
		if len(left) == 0 {
			return
		}
		require.True(t, time.Now().Before(deadline), "left behind: %v", left)
	}
}

// remains lists the keys and the schemas of runs on the servers of o.
func remains(t *testing.T, o simulate.Options) []string {
	t.Helper()
	options, err := redis.ParseURL(o.Redis)
	require.NoError(t, err)
	client := redis.NewClient(options)
	defer client.Close()
	names, err := client.Keys(context.Background(), "fencepost-simulate-*").Result()
	require.NoError(t, err)
	db, err := pgx.Connect(context.Background(), o.Postgres)
	require.NoError(t, err)
	defer db.Close(context.Background())
	rows, err := db.Query(context.Background(), `SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'fencepost\_simulate\_%'`)
	require.NoError(t, err)
	schemas, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return append(names, schemas...)
}

// The check of the history has the same verdict as the count of rows.
func TestTheHistoryOfARoundIsJudgedAsItsRowsAre(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Rounds = 1
	report, err := simulate.Run(t.Context(), o)
	require.NoError(t, err)
	for _, way := range simulate.Ways() {
		h := report.Of(way).Example.History(o.TTL)
		broken, err := history.Check(h)
		require.NoError(t, err)
		if way == simulate.Guarded {
			require.Empty(t, broken, way)
			continue
		}
		require.Len(t, broken, 1, way)
		require.Equal(t, "order", broken[0].Rule.ID)
		last := broken[0].Ops[len(broken[0].Ops)-1]
		require.Equal(t, "A", last.Writer)
		require.Equal(t, "writes 150", last.Note)
	}
}

func TestTheHistoryOfARoundHasAllThatWasSeen(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Rounds = 1
	var ops []history.Op
	count := func(writer string, kind history.Kind) (n int) {
		for _, op := range ops {
			if op.Writer == writer && op.Kind == kind {
				n++
			}
		}
		return n
	}
	find := func(writer string, kind history.Kind) history.Op {
		i := slices.IndexFunc(ops, func(op history.Op) bool { return op.Writer == writer && op.Kind == kind })
		require.GreaterOrEqual(t, i, 0, "%s %s", writer, kind)
		return ops[i]
	}
	waits := func() bool { // not if the machine was too slow: a writer lost its lease, or B came after A's
		report, err := simulate.Run(t.Context(), o)
		require.NoError(t, err)
		ops = report.Of(simulate.Guarded).Example.History(o.TTL).Ops
		return count("A", history.Acquire) == 1 && count("B", history.Acquire) == 1 &&
			find("B", history.Acquire).Began < find("A", history.Acquire).Until
	}
	for ; !waits(); o.TTL *= 2 {
		require.Less(t, o.TTL, time.Minute, "B never waits")
	}
	stopped, a, b := find("A", history.Fault), find("A", history.Acquire), find("B", history.Acquire)
	require.Equal(t, "stopped", stopped.Note)
	require.Less(t, stopped.Began, b.Ended)
	require.Less(t, find("B", history.Write).Ended, stopped.Ended)
	require.LessOrEqual(t, a.Until, b.Ended, "a paused writer has lost its lease when another has one")
	require.LessOrEqual(t, a.Until, stopped.Began+o.TTL, "and it was not renewed meanwhile")
	require.Equal(t, history.Refused, find("A", history.Write).Outcome)
	require.Equal(t, stopped.Ended, find("A", history.Write).Began, "it is asked for when A goes on")
	require.Equal(t, a.Number, find("A", history.Claim).Number)
	require.Equal(t, "balance 120", find("account", history.Read).Note)
}

// While A is stopped, the database receives nothing from it. It receives statements from
// A before and after that, and from B meanwhile.
func TestNoStatementOfAStoppedWriterArrives(t *testing.T) {
	t.Parallel()
	server, address := startProxy(t, testenv.PostgresURL(t))
	var events []simulate.Event
	o := options(t)
	o.Postgres = address
	o.Observe = func(at simulate.Progress) { events = append(events, at.Event) }
	_, err := simulate.Run(t.Context(), o)
	require.NoError(t, err)

	var asked, paused simulate.Event
	pauses := 0
	for _, e := range events {
		switch {
		case e.Writer == "A" && e.Kind == simulate.Asks:
			asked = e
		case e.Kind == simulate.Pauses:
			paused = e
			require.NotZero(t, server.between("A", asked.At, e.At), "A read before")
		case e.Kind == simulate.Continued:
			pauses++
			require.Zero(t, server.between("A", paused.At, e.At), "A was stopped")
			require.NotZero(t, server.between("B", paused.At, e.At), "B wrote meanwhile")
		case e.Writer == "A" && e.Kind == simulate.Accepted:
			require.NotZero(t, server.between("A", paused.At, e.At), "A wrote afterwards")
		}
	}
	require.Equal(t, 4*rounds, pauses)
}

// proxy forwards to a PostgreSQL server, and records when each writer sends something.
type proxy struct {
	address string
	server  string

	mu   sync.Mutex
	said map[string][]time.Time // by the writer's name
}

// startProxy returns a proxy and the URL of the server through it.
func startProxy(t *testing.T, server string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(server)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{address: listener.Addr().String(), server: u.Host, said: map[string][]time.Time{}}
	if u.Port() == "" {
		p.server = net.JoinHostPort(u.Hostname(), "5432")
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		conns.Wait()
	})
	u.Host = p.address
	query := u.Query()
	query.Set("sslmode", "disable") // or there is nothing to read
	u.RawQuery = query.Encode()
	return p, u.String()
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server)
		client.Close()
	}()
	name, buffer := "", make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		at := time.Now()
		if err != nil {
			return
		}
		for _, writer := range []string{"A", "B"} {
			if bytes.Contains(buffer[:n], []byte("fencepost simulate "+writer+"\x00")) {
				name = writer // the startup message
			}
		}
		p.note(name, at)
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) note(name string, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said[name] = append(p.said[name], at)
}

// between counts the packets that the writer sent between from and to.
func (p *proxy) between(writer string, from, to time.Time) (count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.said[writer] {
		if at.After(from) && at.Before(to) {
			count++
		}
	}
	return count
}
