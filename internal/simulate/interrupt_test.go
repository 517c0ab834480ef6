package simulate_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/simulate"
	"github.com/fencepost/fencepost/internal/testenv"
)

var errEnough = errors.New("enough")

// Wherever a round is when the run ends, nothing of it stays.
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

// requireRemoved: of what came in the course of the run nothing stays. Other
// tests run on the same servers, but theirs goes away too, in time.
func requireRemoved(t *testing.T, o simulate.Options, before, during []string) {
	t.Helper()
	made := slices.ContainsFunc(during, func(name string) bool { return !slices.Contains(before, name) })
	require.True(t, made, "the run made something")
	suspects := append(during, remains(t, o)...)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
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
