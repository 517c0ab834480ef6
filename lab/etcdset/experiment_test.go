package etcdset_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
)

// role is the role of a worker's process.
const role = "worker"

func TestMain(m *testing.M) {
	subprocess.Serve(map[string]func(*subprocess.Parent) error{role: serve})
	leaktest.Main(m)
}

// envRuns is the number of runs at full length. Without it there is one short run, whose
// TTL, work and pauses are a tenth of the original.
const envRuns = "FENCEPOST_EXPERIMENT_RUNS"

func TestExperiment(t *testing.T) {
	t.Parallel()
	c := newConfig(t)
	runs, full := testenv.Rounds(t, envRuns, 1), os.Getenv(envRuns) != ""
	if !full {
		c.TTL, c.Work, c.Every, c.Length = c.TTL/10, c.Work/10, c.Every/10, 3*time.Second
		c.Seed = rand.Uint64N(1e6)
	}
	var total report
	for range runs {
		c.Seed++ // full runs have seeds 1, 2, 3 …: none is chosen for its result
		r, err := c.run(t.Context())
		require.NoError(t, err)
		r.Servers = servers(t)
		t.Logf("seed %d: %s", c.Seed, r)
		require.Len(t, r.Counts, len(allWays))
		require.Positive(t, r.Pauses)
		for i, c := range r.Counts {
			require.Equal(t, allWays[i], c.Way)
			require.Equal(t, c.Begun, c.Acknowledged+c.Refused+c.Failed+c.Unknown, c.Way)
			require.Zero(t, c.Ghosts, c.Way)
		}
		total.add(r)
	}
	if full { // in a short run the lock may lose nothing by chance
		fmt.Printf("\n%s, %s\n", time.Now().UTC().Format(time.DateOnly), &total)
		require.NoError(t, total.controlError())
	}
	require.NoError(t, total.verdict())
}

// newConfig returns the full experiment, with the original's figures, on the tests'
// servers.
func newConfig(t *testing.T) config {
	t.Helper()
	self, err := subprocess.Self("worker", role)
	require.NoError(t, err)
	_, prefix := testenv.Redis(t)
	_, schema := testenv.Postgres(t)
	return config{
		Worker: self,
		Redis:  testenv.RedisURL(t), Prefix: prefix, Postgres: testenv.PostgresURL(t), Schema: schema,
		Ways:      allWays,
		Processes: 5, // one for each node, as Jepsen's default is
		TTL:       2 * time.Second,
		Work:      2 * time.Second,
		Every:     5 * time.Second,
		Length:    2 * time.Minute,
	}
}

// servers returns the versions of the servers.
func servers(t *testing.T) string {
	t.Helper()
	client, _ := testenv.Redis(t)
	pool, _ := testenv.Postgres(t)
	var postgres string
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT split_part(current_setting('server_version'), ' ', 1)").Scan(&postgres))
	info, err := client.Info(t.Context(), "server").Result()
	require.NoError(t, err)
	_, redis, _ := strings.Cut(info, "redis_version:")
	redis, _, _ = strings.Cut(redis, "\r\n")
	return fmt.Sprintf("Redis %s, PostgreSQL %s, %s", redis, postgres, runtime.Version())
}

// A run that could not be carried out is an error and no figure.
func TestRunsThatAreNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*config)
		want   string
	}{
		"nothing is paused":              {func(c *config) { c.Every = 0 }, "a required field"},
		"no process at all":              {func(c *config) { c.Processes = 0 }, "a required field"},
		"a process that reports nothing": {func(c *config) { c.Worker.Argv = []string{"false"} }, "is gone: exit status 1"},
		"a URL that is none":             {func(c *config) { c.Redis = "redis://u:sekret@h:port" }, "is gone: exit status 1: etcdset: redis: not a URL"},
		"a server that is not there":     {func(c *config) { c.Redis = "redis://127.0.0.1:1" }, "etcdset: redis at 127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newConfig(t)
			c.change(&o)
			r, err := o.run(t.Context())
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "sekret")
			require.Nil(t, r)
		})
	}
}

func TestACancelledRunIsNone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(500*time.Millisecond, cancel)
	r, err := newConfig(t).run(ctx)
	require.Error(t, err)
	require.Nil(t, r)
}

var errNotBegun = errors.New("it has ended, and has not begun")

// enter starts another worker, with one addition in each way.
func (c *crew) enter(ctx context.Context, change func(*setup)) (*member, error) {
	m, err := c.startWorker(ctx, func(s *setup) { s.Additions = 1; change(s) })
	if err != nil {
		return nil, err
	}
	return m, m.Send(struct{}{})
}

// busy returns the only worker after its addition in the first way has begun.
func (c *crew) busy(ctx context.Context) (*member, error) {
	m, err := c.enter(ctx, func(*setup) {})
	for err == nil {
		select {
		case <-m.done:
			err = errNotBegun
		case <-time.After(time.Millisecond):
		}
		if c.tally.count(c.Ways[0], nil).Begun > 0 {
			return m, nil
		}
	}
	return nil, err
}

// The only way that checks its lease stops when the lease ends, before it writes. The
// lease must expire by itself: if it does before the process is stopped, the test is
// repeated with a lease that is twice as long.
func TestAWatchedAdditionStopsWithItsLease(t *testing.T) {
	t.Parallel()
	c := newConfig(t)
	c.Ways, c.Work = []way{watched}, 1000*time.Hour
	for c.TTL = 200 * time.Millisecond; ; c.TTL *= 2 {
		counts, err := c.play(t.Context(), func(alone *crew) error {
			m, err := alone.busy(t.Context())
			if err != nil {
				return err
			}
			return errors.Join(m.Stop(), m.Stands(t.Context()), sleep(t.Context(), 2*c.TTL), m.resume(t.Context()))
		})
		if err == nil {
			require.Equal(t, []count{{Way: watched, Begun: 1, Failed: 1}}, counts)
			return
		}
		require.Less(t, c.TTL, 10*time.Second, "%v", err)
	}
}

// The end of the run must not count as the end of a lease.
func TestABegunAdditionIsEnded(t *testing.T) {
	t.Parallel()
	for _, way := range allWays {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			c := newConfig(t)
			c.Ways, c.Work, c.TTL, c.Idle = allWays[:0:0], time.Second, hang, hang // both are longer than the work
			c.Ways = append(c.Ways, way)
			counts, err := c.play(t.Context(), func(alone *crew) error {
				_, err := alone.busy(t.Context())
				return errors.Join(err, alone.finishAll(t.Context()))
			})
			require.NoError(t, err)
			require.Equal(t, []count{{Way: way, Begun: 1, Acknowledged: 1}}, counts)
		})
	}
}

// Only an error that promises that nothing was written may count as not written.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	stale := &guard.StaleError{}
	for _, c := range []struct {
		err  error
		want answer
	}{
		{nil, acknowledged},
		{stale, refused},
		{fmt.Errorf("wrapped: %w", stale), refused},
		{guard.ErrUnknown, unknown},
		{errors.Join(guard.ErrUnknown, token.ErrLost), unknown},
		{guard.ErrEvicted, failed},
		{context.Canceled, failed},
		{errors.New("no such table"), failed},
	} {
		require.Equal(t, c.want, outcome(c.err), "%v", c.err)
	}
}

// answering is a database that returns one error.
type answering struct{ err error }

func (d answering) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, d.err
}

// unsent is pgx's error for a statement that was not sent.
type unsent struct{ error }

func (unsent) SafeToRetry() bool { return true }

// Without a guard, too, a statement that was sent and not answered must count neither as
// lost nor as not written.
func TestWhatAPlainWriteKnows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err     error
		unknown bool
	}{
		"done":                          {nil, false},
		"the server has refused":        {&pgconn.PgError{Code: "23505"}, false},
		"it was not sent":               {unsent{io.EOF}, false},
		"sent, and the connection fell": {io.ErrUnexpectedEOF, true},
		"sent, and the context ended":   {context.Canceled, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := plain{answering{c.err}}.Exec(t.Context(), "statement")
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.unknown, errors.Is(err, guard.ErrUnknown))
		})
	}
	over := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	_, err := plain{answering{io.EOF}}.Exec(ctx, "statement")
	require.Equal(t, over, err, "nothing was sent")
}
