package leader_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/leader"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

const role = "leader/plan"

func database(t *testing.T) *pgxpool.Pool {
	pool, err := pgxpool.New(t.Context(), testenv.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	testenv.Migrate(t, pool.Config().ConnString())
	_, err = pool.Exec(t.Context(), leader.Schema)
	require.NoError(t, err)
	return pool
}

// An operator's release deposes each leader: another instance, or the same one, leads, its
// followers get its address, and the former leader's late write is refused.
func TestTheFollowersGetTheLeadersAddress(t *testing.T) {
	t.Parallel()
	for name, issuer := range map[string]func(t *testing.T, pool *pgxpool.Pool) token.Issuer{
		"pgtoken": func(t *testing.T, pool *pgxpool.Pool) token.Issuer {
			iss := &pgtoken.Issuer{DB: pool}
			t.Cleanup(func() { _ = iss.Close() })
			return iss
		},
		"redistoken": func(t *testing.T, _ *pgxpool.Pool) token.Issuer {
			client, prefix := testenv.Redis(t)
			return &redistoken.Issuer{Client: client, Prefix: prefix}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := database(t)
			iss, fence := issuer(t, pool), &sqlguard.Guard{DB: pool}
			ctx, cancel := context.WithCancel(t.Context())
			ended, leaders := make(chan struct{}), make(chan string)
			for _, address := range []string{"10.0.0.7:80", "10.0.0.8:80"} {
				p := leader.Planner{
					Candidate: &lock.Candidate{Locker: &lock.Locker{Issuer: iss, Claim: fence.Admit, TTL: time.Minute}, Resource: role, Value: address},
					Fence:     fence, Every: time.Millisecond,
				}
				go func() {
					_ = p.Run(ctx) // ends with ctx
					ended <- struct{}{}
				}()
			}
			observer := &lock.Observer{Inspector: iss.(token.Inspector), Resource: role, Interval: time.Millisecond}
			go func() {
				defer close(leaders)
				leader.Follow(ctx, observer, func(address string) {
					select {
					case leaders <- address:
					case <-ctx.Done():
					}
				})
			}()
			followed := func() string {
				for address := range leaders {
					if address != "" {
						return address
					}
				}
				return ""
			}
			first := followed()
			require.NotEmpty(t, first)
			now, err := observer.Leader(ctx)
			require.NoError(t, err)
			var number int64
			var holder string
			require.Eventually(t, func() bool { // the leader has claimed
				return pool.QueryRow(ctx, "SELECT number, holder FROM fencepost.marks WHERE resource = $1", role).Scan(&number, &holder) == nil &&
					holder == now.Holder
			}, time.Minute, time.Millisecond)
			former := token.Token{Resource: role, Number: number, Holder: holder}
			require.NoError(t, iss.Release(ctx, former))
			require.Eventually(t, func() bool {
				next, err := observer.Leader(ctx)
				return err == nil && next.Holder != "" && next.Holder != now.Holder && next.Number > number
			}, time.Minute, time.Millisecond)
			require.Eventually(t, func() bool { // the next leader has claimed, and one of the two has written
				return pool.QueryRow(ctx, "SELECT m.number FROM fencepost.marks m, plans WHERE m.resource = $1", role).Scan(&now.Number) == nil && now.Number > number
			}, time.Minute, time.Millisecond)
			_, err = fence.On(role).Exec(token.NewContext(ctx, former), "UPDATE plans SET by = 'late'")
			require.ErrorIs(t, err, guard.ErrStale)
			require.NotEqual(t, "late", by(t, pool, "SELECT by FROM plans"))
			require.Equal(t, "late", by(t, pool, "UPDATE plans SET by = 'late' RETURNING by"), "without the guard it is written")
			cancel()
			for range 2 {
				<-ended
			}
			for range leaders {
			}
		})
	}
}

func by(t *testing.T, pool *pgxpool.Pool, sql string) string {
	rows, err := pool.Query(t.Context(), sql)
	require.NoError(t, err)
	by, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return by
}
