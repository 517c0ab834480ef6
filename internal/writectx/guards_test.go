package writectx_test

import (
	"context"
	"database/sql"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// guards have one connection each, over a proxy.
var guards = map[string]func(t *testing.T) (guard.Store, *netfault.Proxy){
	"sqlguard": func(t *testing.T) (guard.Store, *netfault.Proxy) {
		schema, far, p := postgres(t)
		pool, err := pgxpool.New(t.Context(), far+"&pool_max_conns=1")
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		return &sqlguard.Guard{DB: pool, Schema: schema}, p
	},
	"stdsql": func(t *testing.T) (guard.Store, *netfault.Proxy) {
		schema, far, p := postgres(t)
		db, err := sql.Open("pgx", far)
		require.NoError(t, err)
		t.Cleanup(func() { db.Close() })
		db.SetMaxOpenConns(1)
		return &stdsql.Guard{DB: db, Schema: schema}, p
	},
	"redisguard": func(t *testing.T) (guard.Store, *netfault.Proxy) {
		near, prefix := testenv.Redis(t)
		options := *near.Options()
		p := proxy(t, options.Addr)
		options.Addr, options.PoolSize, options.ReadTimeout = p.Addr(), 1, time.Hour
		client := redis.NewClient(&options)
		t.Cleanup(func() { client.Close() })
		return &redisguard.Guard{Client: client, MarkKey: func(resource string) string { return prefix + resource }}, p
	},
}

func postgres(t *testing.T) (schema, far string, p *netfault.Proxy) {
	t.Helper()
	_, schema = testenv.Postgres(t)
	server, err := url.Parse(testenv.PostgresURL(t))
	require.NoError(t, err)
	p = proxy(t, server.Host)
	server.Host = p.Addr()
	settings := server.Query()
	settings.Set("search_path", schema)
	server.RawQuery = settings.Encode()
	return schema, server.String(), p
}

func proxy(t *testing.T, target string) *netfault.Proxy {
	t.Helper()
	if host, port, err := net.SplitHostPort(target); err == nil && host == "localhost" {
		target = net.JoinHostPort("127.0.0.1", port)
	}
	p, err := netfault.Start(target)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// A statement that was sent and waits for its reply behaves the same on every guard.
//
// hazard G18
func TestAClaimOnItsWay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cause    error         // the cause of the end of its context
		deadline time.Duration // of its context
		want     []error       // empty if it continues
	}{
		"the lease is lost":                      {lost, time.Hour, nil},
		"the lease is released":                  {token.ErrReleased, time.Hour, nil},
		"the caller cancels":                     {context.Canceled, time.Hour, []error{context.Canceled}},
		"the deadline passes":                    {nil, 200 * time.Millisecond, []error{context.DeadlineExceeded}},
		"the lease is lost, the deadline passes": {lost, 200 * time.Millisecond, []error{context.DeadlineExceeded, token.ErrLost}},
	} {
		for kind, open := range guards {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				store, p := open(t)
				// On a slow machine the lease may end after the deadline: then try again
				// with more time.
				deadline := c.deadline
				for number, late := int64(33), true; late; number, deadline = number+2, 2*deadline {
					late = claimOnItsWay(t, store, p, number, deadline, c.cause, c.want)
				}
			})
		}
	}
}

// claimOnItsWay ends the context of a claim that gets no reply. It reports whether the
// deadline had passed before the cause was set.
func claimOnItsWay(t *testing.T, store guard.Store, p *netfault.Proxy, number int64, deadline time.Duration, cause error, want []error) (late bool) {
	t.Helper()
	require.NoError(t, store.Admit(t.Context(), token.Token{Resource: "account/42", Number: number, Holder: "a"}), "it has a connection")
	p.Blackhole(netfault.ToClient)
	defer p.Heal(netfault.ToClient)
	outer, stop := context.WithTimeout(t.Context(), deadline)
	defer stop()
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- store.Admit(ctx, token.Token{Resource: "account/42", Number: number + 1, Holder: "b"}) }()
	require.Eventually(t, func() bool { return p.Held(netfault.ToClient) > 0 || ctx.Err() != nil }, 2*time.Minute, time.Millisecond)
	if cause != nil {
		cancel(cause)
		if context.Cause(ctx) != cause {
			t.Logf("late: %v", <-done)
			return true
		}
	}
	if want == nil {
		select {
		case err := <-done:
			t.Fatalf("it was cut off: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		p.Heal(netfault.ToClient)
		require.NoError(t, <-done)
		return false
	}
	err := <-done
	for _, want := range want {
		require.ErrorIs(t, err, want)
	}
	return false
}
