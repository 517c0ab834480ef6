package pgtoken_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// tortureTTL makes the first lease after a hand-off last 250 ms.
const tortureTTL = 600 * time.Millisecond

// slowConn sometimes delivers late, especially notifications.
type slowConn struct {
	net.Conn
	listens atomic.Bool
}

func (c *slowConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("LISTEN")) {
		c.listens.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.listens.Load() && rand.N(10) == 0 || rand.N(1000) == 0 {
		time.Sleep(rand.N(2 * tortureTTL))
	}
	return n, err
}

// witness records the holders of a resource, and counts violations of the rules.
type witness struct {
	resource string

	mu                              sync.Mutex
	holder                          string
	until                           time.Time
	last                            int64
	overlaps, falls, late, released int
}

// enters records a grant, and reports whether it arrived in time.
func (w *witness) enters(grant token.Grant) (in bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !now.Before(grant.Until) {
		w.late++
		return false
	}
	if w.holder != "" && now.Before(w.until) {
		w.overlaps++
	}
	if grant.Token.Number <= w.last {
		w.falls++
	}
	w.holder, w.until, w.last = grant.Token.Holder, grant.Until, grant.Token.Number
	return true
}

// leaves is called before the resource is released.
func (w *witness) leaves(holder string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holder == holder {
		w.holder = ""
		w.released++
	}
}

// tortured runs the turns of one waiter, some of which fail.
func tortured(ctx context.Context, t *testing.T, iss *pgtoken.Issuer, w *witness, name string, turns *atomic.Int64) {
	for n := 0; ctx.Err() == nil && !t.Failed(); n++ {
		holder := fmt.Sprintf("%s/%d", name, n)
		timeout := time.Hour
		if rand.N(20) == 0 {
			timeout = rand.N(50 * time.Millisecond)
		}
		waiting, giveUp := context.WithTimeout(ctx, timeout)
		grant, err := iss.Wait(waiting, w.resource, holder, tortureTTL)
		switch {
		case err != nil && waiting.Err() == nil:
			t.Errorf("%s waits: %v", holder, err)
		case err == nil && w.enters(grant):
			turns.Add(1)
			hold := time.Millisecond
			if rand.N(10) == 0 {
				hold = time.Until(grant.Until)
			}
			time.Sleep(rand.N(max(hold, time.Microsecond)))
			if rand.N(100) != 0 { // if not, the holder crashes
				w.leaves(holder)
				release(ctx, t, iss, grant.Token)
			}
		}
		giveUp()
	}
}

func release(ctx context.Context, t *testing.T, iss *pgtoken.Issuer, tok token.Token) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := iss.Release(ctx, tok); err != nil && !errors.Is(err, token.ErrLost) {
		t.Errorf("release: %v", err)
	}
}

// hazard R13
func TestStressTheQueue(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	const lines, issuers, waiters = 4, 3, 2
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	var witnesses [lines]witness
	var turns [lines][issuers * waiters]atomic.Int64
	for r := range lines {
		witnesses[r].resource = fmt.Sprint("account/", r)
	}
	for p := range issuers {
		iss := closed(t, &pgtoken.Issuer{DB: slowly(t, schema), Schema: schema})
		for r := range lines {
			for i := range waiters {
				turns := &turns[r][p*waiters+i]
				group.Go(func() { tortured(ctx, t, iss, &witnesses[r], fmt.Sprintf("%d/%d", p, i), turns) })
			}
		}
	}
	var killed, dead atomic.Int64
	group.Go(func() { disturb(ctx, t, pool, schema, &killed, &dead) })
	enough := func() bool { // every waiter must have had turns
		for r := range lines {
			for i := range turns[r] {
				if turns[r][i].Load() < 5 {
					return false
				}
			}
		}
		return killed.Load() > 5 && dead.Load() > 20 || t.Failed()
	}
	pgtest.Await(t, enough)
	cancel()
	group.Wait()
	iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
	for r := range lines {
		w := &witnesses[r]
		t.Logf("%s: %d given back, %d grants too late; %d sessions killed and %d dead waiters in all", w.resource, w.released, w.late, killed.Load(), dead.Load())
		require.Zero(t, w.overlaps, "two holders at a time")
		require.Zero(t, w.falls, "numbers that fell")
		last, err := iss.Wait(t.Context(), w.resource, "last", time.Minute) // skips the dead waiters
		require.NoError(t, err)
		require.NoError(t, iss.Release(t.Context(), last.Token))
	}
	require.Zero(t, pgtest.Query[int](t, pool, "SELECT count(*) FROM "+pgtest.In(schema, "waiters")), "the queues are empty")
}

// slowly returns a pool whose connections deliver late, with that application name.
func slowly(t *testing.T, name string) *pgxpool.Pool {
	t.Helper()
	return pgtest.Connect(t, func(config *pgxpool.Config) {
		config.MaxConns = 8
		config.ConnConfig.RuntimeParams["application_name"] = name
		pgtest.Wrap(config, func(conn net.Conn) (net.Conn, error) { return &slowConn{Conn: conn}, nil })
	})
}

// disturb kills sessions for notifications, and adds dead waiters to the queues.
func disturb(ctx context.Context, t *testing.T, pool *pgxpool.Pool, schema string, killed, dead *atomic.Int64) {
	kill := "SELECT count(pg_terminate_backend(a.pid)) FROM (SELECT a.pid FROM pg_stat_activity a JOIN pg_locks l USING (pid) WHERE a.application_name = $1" +
		" AND l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' ORDER BY random() LIMIT 1) a"
	stand := "INSERT INTO " + pgtest.In(schema, "waiters") + " SELECT resource, 'dead ' || $1::bigint, 0, $1::bigint, '1 h', false, now(), '0'" +
		" FROM " + pgtest.In(schema, "leases") + " WHERE queued"
	for ctx.Err() == nil {
		time.Sleep(rand.N(200 * time.Millisecond))
		var n int64
		if err := pool.QueryRow(ctx, kill, schema).Scan(&n); err == nil {
			killed.Add(n)
		}
		if tag, err := pool.Exec(ctx, stand, 1+rand.Int64N(1<<40)); err == nil {
			dead.Add(tag.RowsAffected())
		} else if ctx.Err() == nil {
			t.Errorf("a dead waiter: %v", err)
			return
		}
	}
}
