package pgtoken_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// listeners returns the sessions with that application name that hold a channel's lock.
func listeners(t *testing.T, pool *pgxpool.Pool, name string) []int {
	t.Helper()
	rows, err := pool.Query(t.Context(), "SELECT a.pid FROM pg_stat_activity a JOIN pg_locks l USING (pid)"+
		" WHERE a.application_name = $1 AND l.locktype = 'advisory' AND l.mode = 'ExclusiveLock'", name)
	require.NoError(t, err)
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(t, err)
	return pids
}

// named returns an Issuer with a pool of its own, whose sessions have the application
// name.
func named(t *testing.T, schema, name string) *pgtoken.Issuer {
	t.Helper()
	pool := pgtest.Connect(t, func(config *pgxpool.Config) { config.ConnConfig.RuntimeParams["application_name"] = name })
	return closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
}

func TestWaitReturnsTheCause(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
	pgtest.Acquire(t, iss, "a")
	cause := errors.New("the caller has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	waiting := wait(ctx, iss, "b", long)
	awaitQueue(t, pool, schema, 1, notified)
	cancel(cause)
	err := (<-waiting).Err
	require.ErrorIs(t, err, cause)
	require.ErrorContains(t, err, "pgtoken: wait for account/42: ")
	var held *token.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "a", held.Holder)
	awaitQueue(t, pool, schema, 0, "true")
}

func TestAWaitThatTheServerRefusesIsNoContention(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	exec := func(sql string) {
		_, err := pool.Exec(context.WithoutCancel(t.Context()), strings.ReplaceAll(sql, "it", pgx.Identifier{schema}.Sanitize()))
		require.NoError(t, err)
	}
	exec("CREATE ROLE it")
	t.Cleanup(func() { exec("DROP OWNED BY it"); exec("DROP ROLE it") })
	exec("GRANT USAGE ON SCHEMA it TO it")
	pgtest.Acquire(t, &pgtoken.Issuer{DB: pool, Schema: schema}, "a")
	limited := pgtest.Connect(t, func(config *pgxpool.Config) { config.ConnConfig.RuntimeParams["role"] = schema })
	iss := closed(t, &pgtoken.Issuer{DB: limited, Schema: schema})
	cause := errors.New("the caller has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	polls, leaves := wait(t.Context(), iss, "b", time.Second), wait(ctx, iss, "c", long)
	awaitQueue(t, pool, schema, 2, notified)
	exec("REVOKE USAGE ON SCHEMA it FROM it")
	err := (<-polls).Err
	require.ErrorContains(t, err, "42501")
	require.NotErrorIs(t, err, token.ErrHeld)
	cancel(cause)
	err = (<-leaves).Err
	require.ErrorContains(t, err, "42501")
	require.NotErrorIs(t, err, token.ErrHeld)
}

// hazard R13
func TestLateNotification(t *testing.T) {
	t.Parallel()
	const ttl = 300 * time.Millisecond // the first lease after a hand-off lasts 250 ms
	pool, schema := testenv.Postgres(t)
	iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
	tok := pgtest.Acquire(t, iss, "a")
	// The session of a waiter from which nothing is read for a while.
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.PgConn().Exec(t.Context(), "LISTEN fencepost_5; SELECT pg_advisory_lock(5)").ReadAll()
	require.NoError(t, err)
	asked := time.Now()
	var answered int64
	answer := "SELECT split_part(" + pgtest.In(schema, "try_acquire") + "($1, 'b', $2::bigint * interval '1 microsecond', false, 5), ' ', 3)::bigint"
	require.NoError(t, pool.QueryRow(t.Context(), answer, resource, ttl.Microseconds()).Scan(&answered))

	require.NoError(t, iss.Release(t.Context(), tok)) // to b
	grant, err := iss.Wait(t.Context(), resource, "c", long)
	require.NoError(t, err, "b has not renewed")
	n, err := conn.WaitForNotification(t.Context())
	require.NoError(t, err)
	received := time.Now()
	require.False(t, pgtoken.UntilOfNotification(n.Payload, asked, answered, received).After(received), "the lease of b is over when the notification is received")
	require.True(t, grant.Until.After(received), "counted from the receipt, it would be alive while c has the lease")

	set := fmt.Sprintf("7 0 %d 0\n250000\naccount/42\nb", answered+time.Hour.Microseconds())
	require.False(t, pgtoken.UntilOfNotification(set, asked, answered, received).After(received.Add(250*time.Millisecond)), "nor later, if the server's clock was set forward")
}

// hazard L7
func TestDeadWaitersArePassedOver(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
	tok := pgtest.Acquire(t, iss, "a")
	// The rows that killed processes leave: a waiter with notifications, and a waiter
	// that polls.
	dead := "INSERT INTO " + pgtest.In(schema, "waiters") + " SELECT $1, 'dead ' || i, i, i, '1 h', false, now() - interval '1 h', '1 s' FROM generate_series(0, 1) i"
	pgtest.Exec(t, pool, dead, resource)
	waiting := wait(t.Context(), iss, "b", long)
	awaitQueue(t, pool, schema, 1, notified+" AND holder = 'b'")
	require.NoError(t, iss.Release(t.Context(), tok))
	require.NoError(t, iss.Release(t.Context(), pgtest.Granted(t, waiting)))
	awaitQueue(t, pool, schema, 0, "true")
	pgtest.Cycle(t, iss, "c")
}

// hazard L7
func TestWaitersWhoseSessionIsEndedKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	first, second := named(t, schema, schema+"1"), named(t, schema, schema+"2")
	tok := pgtest.Acquire(t, first, "a")
	var turns []<-chan pgtest.Answer
	for i, iss := range []*pgtoken.Issuer{first, second, first, second} {
		turns = append(turns, wait(t.Context(), iss, fmt.Sprint("waiter ", i), long))
		awaitQueue(t, pool, schema, i+1, notified)
	}
	// They share the channel of their Issuer's session.
	waiters := " FROM " + pgtest.In(schema, "waiters") + " WHERE holder IN ('waiter 0', 'waiter 2')"
	ended := pgtest.Query[int64](t, pool, "SELECT min(channel)"+waiters)
	for _, pid := range listeners(t, pool, schema+"1") {
		require.True(t, pgtest.Query[bool](t, pool, "SELECT pg_terminate_backend($1)", pid))
	}
	pgtest.Await(t, func() bool { // until both have polled again, from another session
		return pgtest.Query[int](t, pool, "SELECT count(*)"+waiters+" AND channel NOT IN (0, $1)", ended) == 2
	})
	for i, turn := range turns {
		require.NoError(t, first.Release(t.Context(), tok))
		tok = pgtest.Granted(t, turn)
		require.Equal(t, fmt.Sprint("waiter ", i), tok.Holder)
	}
}

const (
	programs = 4
	crowd    = 4 // waiters of each program
	rounds   = 16
)

// counted returns an Issuer with a pool of its own that counts its packets.
func counted(t *testing.T, schema string, sent *atomic.Int64) *pgtoken.Issuer {
	t.Helper()
	pool := pgtest.Connect(t, func(config *pgxpool.Config) {
		config.MaxConns = crowd
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // prepares no statements
		countPackets(config, sent)
	})
	return closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
}

// race makes all waiters acquire and release until all have had their turns, and returns
// the order of the turns.
func race(t *testing.T, issuers []*pgtoken.Issuer, acquire func(iss *pgtoken.Issuer, holder string) (token.Grant, error), released func()) (turns []int) {
	t.Helper()
	var group sync.WaitGroup
	var left atomic.Int64
	left.Store(programs * crowd * rounds)
	var mu sync.Mutex
	for w := range programs * crowd {
		iss := issuers[w%programs]
		group.Go(func() {
			for n := 0; left.Add(-1) >= 0 && !t.Failed(); n++ {
				grant, err := acquire(iss, fmt.Sprintf("%d/%d", w, n))
				if err == nil {
					mu.Lock()
					turns = append(turns, w)
					mu.Unlock()
					err = iss.Release(t.Context(), grant.Token)
				}
				if err != nil {
					t.Error(err)
					return
				}
				released()
			}
		})
	}
	group.Wait()
	return turns
}

// hazard L7
func TestOneReleaseWakesOneWaiter(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	var sent atomic.Int64
	var issuers []*pgtoken.Issuer
	for range programs {
		issuers = append(issuers, counted(t, schema, &sent))
	}
	t.Run("two packets a turn, and turn by turn", func(t *testing.T) {
		first := pgtest.Acquire(t, issuers[0], "first")
		done := make(chan []int, 1)
		go func() {
			done <- race(t, issuers, func(iss *pgtoken.Issuer, holder string) (token.Grant, error) {
				return iss.Wait(t.Context(), resource, holder, long)
			}, func() {})
		}()
		awaitQueue(t, pool, schema, programs*crowd, notified)
		sent.Store(0) // the number of earlier packets depends on how long the listeners took to start
		start := time.Now()
		require.NoError(t, issuers[0].Release(t.Context(), first))
		turns := <-done
		const connecting = programs * (crowd + 1) * 8                        // packets, of as many connections
		polls := programs * crowd * int(1+time.Since(start)/(5*time.Second)) // if a turn takes that long
		require.LessOrEqual(t, sent.Load(), int64(2*programs*crowd*rounds+connecting+polls))
		served := map[int]bool{}
		for _, w := range turns[:programs*crowd] {
			served[w] = true
		}
		require.Len(t, served, programs*crowd, "a waiter that comes again is served after those that wait")
		awaitQueue(t, pool, schema, 0, "true")
	})
	t.Run("waking all of them, as the naive release does, makes each of them send a request", func(t *testing.T) {
		var herd sync.Mutex
		woken := sync.NewCond(&herd)
		generation := 0
		sent.Store(0)
		race(t, issuers, func(iss *pgtoken.Issuer, holder string) (token.Grant, error) {
			for {
				herd.Lock()
				seen := generation
				herd.Unlock()
				grant, err := iss.Acquire(t.Context(), resource, holder, long)
				if !errors.Is(err, token.ErrHeld) {
					return grant, err
				}
				herd.Lock()
				for generation == seen {
					woken.Wait()
				}
				herd.Unlock()
			}
		}, func() {
			herd.Lock()
			generation++
			herd.Unlock()
			woken.Broadcast()
		})
		require.Greater(t, sent.Load(), int64(3*programs*crowd*rounds))
	})
}
