package simulate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/rounds"
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
	if err := (WriterCmd{}).Run(cli.Streams{In: os.Stdin, Out: os.Stdout}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func command(t *testing.T) *Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return &Cmd{
		Rounds: 2, TTL: 100 * time.Millisecond, writer: []string{self, asWriter}, pause: subprocess.BestPause(),
		observe: func(Way, int, rounds.Moment) {},
	}
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
			c := command(t)
			c.pause = pause
			report, err := c.report(t.Context())
			require.NoError(t, err)
			require.Equal(t, pause.String(), report.Pause)
			requireFenced(t, report)
		})
	}
}

// If the ttl is hardly longer than the machine needs for a round, the report must contain
// no figure that was not measured.
func TestRunWithTheShortestTTL(t *testing.T) {
	t.Parallel()
	c := command(t)
	c.TTL = minTTL
	report, err := c.report(t.Context())
	require.NoError(t, err)
	requireFenced(t, report)
}

// requireFenced requires that in every round the naive ways accept the stale write and
// lose the successor's, and that the guard refuses the stale write. The check of the history
// has the same verdict as the count of rows.
func requireFenced(t *testing.T, report *Report) {
	t.Helper()
	require.Len(t, report.Runs, 4)
	for _, count := range report.Runs {
		first := count.first
		broken, err := history.Check(first.history)
		require.NoError(t, err)
		count.first = example{}
		if count.Name == Guarded {
			require.Equal(t, Count{Name: Guarded, StaleAttempted: 2, Refused: 2}, count)
			require.Empty(t, first.lost)
			require.Empty(t, broken)
			continue
		}
		require.Equal(t, Count{Name: count.Name, StaleAttempted: 2, StaleAccepted: 2, UpdatesLost: 2}, count)
		require.Equal(t, []string{"B+20"}, first.lost, count.Name)
		require.Len(t, broken, 1, count.Name)
		require.Equal(t, "order", broken[0].Rule.ID)
		last := broken[0].Ops[len(broken[0].Ops)-1]
		require.Equal(t, "A", last.Writer)
		require.Equal(t, "writes 150", last.Note)
	}
	require.True(t, report.fenced() && report.corrupted())
}

var errEnough = errors.New("enough")

// A run leaves nothing on its servers, also if it ends in the middle of a round.
func TestARunRemovesEverything(t *testing.T) {
	t.Parallel()
	for moment, name := range map[rounds.Moment]string{
		rounds.Begins: "cancelled at the beginning", rounds.Stopped: "cancelled while A is stopped",
		rounds.Succeeded: "cancelled before A resumes", rounds.Ended: "to its end",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := command(t)
			c.Redis, c.Postgres = testenv.RedisURL(t), testenv.PostgresURL(t)
			before := remains(t, c)
			ctx, cancel := context.WithCancelCause(t.Context())
			var during []string
			c.observe = func(way Way, _ int, at rounds.Moment) {
				if way == Guarded && at == moment {
					during = remains(t, c)
					if moment != rounds.Ended {
						cancel(errEnough)
					}
				}
			}
			report, err := c.report(ctx)
			if moment == rounds.Ended {
				require.NoError(t, err)
				requireFenced(t, report)
				require.Equal(t, []string{"redis", "postgres"}, []string{report.Issuer, report.Store})
			} else {
				require.ErrorIs(t, err, errEnough)
				require.Nil(t, report)
			}
			requireRemoved(t, c, before, during)
		})
	}
}

// requireRemoved requires that everything created since the start of the run is removed.
// Other tests on the same servers remove their own objects too, in time.
func requireRemoved(t *testing.T, c *Cmd, before, during []string) {
	t.Helper()
	made := slices.ContainsFunc(during, func(name string) bool { return !slices.Contains(before, name) })
	require.True(t, made, "the run made something")
	suspects := append(during, remains(t, c)...)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		now := remains(t, c)
		left := slices.DeleteFunc(slices.Clone(suspects), func(name string) bool {
			return slices.Contains(before, name) || !slices.Contains(now, name)
		})
		if len(left) == 0 {
			return
		}
		require.True(t, time.Now().Before(deadline), "left behind: %v", left)
	}
}

// remains lists the keys and the schemas of runs on the servers of c.
func remains(t *testing.T, c *Cmd) []string {
	t.Helper()
	options, err := redis.ParseURL(c.Redis)
	require.NoError(t, err)
	client := redis.NewClient(options)
	defer client.Close()
	names, err := client.Keys(context.Background(), "fencepost-simulate-*").Result()
	require.NoError(t, err)
	db, err := pgx.Connect(context.Background(), c.Postgres)
	require.NoError(t, err)
	defer db.Close(context.Background())
	rows, err := db.Query(context.Background(), `SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'fencepost\_simulate\_%'`)
	require.NoError(t, err)
	schemas, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return append(names, schemas...)
}

func TestTheHistoryOfARoundHasAllThatWasSeen(t *testing.T) {
	t.Parallel()
	c := command(t)
	c.Rounds = 1
	var ops []history.Op
	all := func(writer string, kind history.Kind) (found []history.Op) {
		for _, op := range ops {
			if op.Writer == writer && op.Kind == kind {
				found = append(found, op)
			}
		}
		return found
	}
	find := func(writer string, kind history.Kind) history.Op {
		found := all(writer, kind)
		require.NotEmpty(t, found, "%s %s", writer, kind)
		return found[0]
	}
	waits := func() bool { // not if the machine was too slow: a writer lost its lease, or B came after A's
		report, err := c.report(t.Context())
		require.NoError(t, err)
		ops = report.Of(Guarded).first.history.Ops
		return len(all("A", history.Acquire)) == 1 && len(all("B", history.Acquire)) == 1 &&
			find("B", history.Acquire).Began < find("A", history.Acquire).Until
	}
	for ; !waits(); c.TTL *= 2 {
		require.Less(t, c.TTL, time.Minute, "B never waits")
	}
	stopped, a, b := find("A", history.Fault), find("A", history.Acquire), find("B", history.Acquire)
	require.Equal(t, "stopped", stopped.Note)
	require.Less(t, stopped.Began, b.Ended)
	require.Less(t, find("B", history.Write).Ended, stopped.Ended)
	require.LessOrEqual(t, a.Until, b.Ended, "a paused writer has lost its lease when another has one")
	require.Equal(t, history.Refused, find("A", history.Write).Outcome)
	require.LessOrEqual(t, stopped.Ended, find("A", history.Write).Began, "it is asked for when A goes on")
	require.Equal(t, a.Number, find("A", history.Claim).Number)
	require.Equal(t, "reads 100", find("B", history.Read).Note)
	require.Equal(t, "balance 120", find("account", history.Read).Note)
}
