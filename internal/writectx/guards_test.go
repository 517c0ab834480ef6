package writectx_test

import (
	"context"
	"database/sql"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/internal/writectx"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

const resource = "account/42"

// write makes a guarded write, or only a claim, under ctx, which carries tok. It calls
// sending before it sends what the test is about.
type write func(ctx context.Context, tok token.Token, sending func()) error

// writes use one connection each, over a proxy.
var writes = map[string]func(t *testing.T) (write, *netfault.Proxy){
	"sqlguard Admit": func(t *testing.T) (write, *netfault.Proxy) {
		g, _, p := onPostgres(t)
		return admit(g), p
	},
	"sqlguard On.Exec": func(t *testing.T) (write, *netfault.Proxy) {
		g, _, p := onPostgres(t)
		return func(ctx context.Context, _ token.Token, sending func()) error {
			sending()
			_, err := g.On(resource).Exec(ctx, increment)
			return err
		}, p
	},
	"rowguard Table.Update": func(t *testing.T) (write, *netfault.Proxy) {
		g, _, p := onPostgres(t)
		table := &rowguard.Table{Guard: g, Name: pgx.Identifier{"accounts"}, Prefix: "account/"}
		return func(ctx context.Context, tok token.Token, sending func()) error {
			sending()
			return table.Update(ctx, 42, rowguard.Set{"balance": tok.Number})
		}, p
	},
	"stdsql Admit": func(t *testing.T) (write, *netfault.Proxy) {
		g, p := onDatabaseSQL(t)
		return admit(g), p
	},
	"redisguard Admit": func(t *testing.T) (write, *netfault.Proxy) {
		g, _, p := onRedis(t)
		return admit(g), p
	},
	"redisguard Set": func(t *testing.T) (write, *netfault.Proxy) {
		g, key, p := onRedis(t)
		return func(ctx context.Context, tok token.Token, sending func()) error {
			sending()
			return g.Set(ctx, resource, key, tok.Number, 0)
		}, p
	},
	overHTTP: func(t *testing.T) (write, *netfault.Proxy) {
		service := httptest.NewServer(httpguard.Middleware{
			Resources: func(*http.Request) ([]string, error) { return []string{resource}, nil }, Store: new(guard.Memory),
		}.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
		t.Cleanup(service.Close)
		p := proxy(t, service.Listener.Addr().String())
		base := new(http.Transport)
		t.Cleanup(base.CloseIdleConnections)
		transport := httpguard.Transport{Base: base, Hosts: []string{p.Addr()}}
		return func(ctx context.Context, _ token.Token, sending func()) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+p.Addr(), http.NoBody)
			if err != nil {
				return err
			}
			sending()
			resp, err := transport.RoundTrip(req)
			if err != nil {
				return err
			}
			if resp.StatusCode != http.StatusOK {
				t.Errorf("status %d", resp.StatusCode)
			}
			return resp.Body.Close()
		}, p
	},
}

const overHTTP = "httpguard Transport"

// commits call sending before the COMMIT of a transaction that has written.
var commits = map[string]func(t *testing.T) (write, *netfault.Proxy){
	"sqlguard Update": func(t *testing.T) (write, *netfault.Proxy) {
		g, _, p := onPostgres(t)
		return func(ctx context.Context, _ token.Token, sending func()) error {
			return g.Update(ctx, resource, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, increment)
				sending()
				return err
			})
		}, p
	},
	"stdsql Update": func(t *testing.T) (write, *netfault.Proxy) {
		g, p := onDatabaseSQL(t)
		return func(ctx context.Context, _ token.Token, sending func()) error {
			return g.Update(ctx, resource, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, increment)
				sending()
				return err
			})
		}, p
	},
}

const increment = "UPDATE accounts SET balance = balance + 1 WHERE id = 42"

// aborts call sending before their fn returns an error or panics, in a transaction so old that
// its session is asked before its end.
var aborts = map[string]func(t *testing.T) (abort, *netfault.Proxy){
	"sqlguard": func(t *testing.T) (abort, *netfault.Proxy) {
		g, _, p := onPostgres(t)
		return func(ctx context.Context, fn func(exec func(sql string) error) error) error {
			return g.Update(ctx, resource, func(tx pgx.Tx) error {
				return fn(func(sql string) error { _, err := tx.Exec(ctx, sql); return err })
			})
		}, p
	},
	"stdsql, PostgreSQL": func(t *testing.T) (abort, *netfault.Proxy) {
		g, p := onDatabaseSQL(t)
		return abortOf(g), p
	},
	"stdsql, MariaDB": func(t *testing.T) (abort, *netfault.Proxy) {
		config, err := mysql.ParseDSN(testenv.MariaDB(t))
		require.NoError(t, err)
		p := proxy(t, config.Addr)
		config.Addr = p.Addr()
		db, err := sql.Open("mysql", config.FormatDSN())
		require.NoError(t, err)
		t.Cleanup(func() { p.Close(); db.Close() })
		require.NoError(t, migrations.Set{Dialect: migrations.MySQL}.Up(t.Context(), db))
		_, err = db.ExecContext(t.Context(), "CREATE TABLE accounts AS SELECT 42 AS id, 0 AS balance")
		require.NoError(t, err)
		return abortOf(&stdsql.Guard{DB: db, Dialect: stdsql.MySQL}), p
	},
}

// abort makes an Update whose fn gets a function that runs a statement in the transaction.
type abort func(ctx context.Context, fn func(exec func(sql string) error) error) error

func abortOf(g *stdsql.Guard) abort {
	return func(ctx context.Context, fn func(exec func(sql string) error) error) error {
		return g.Update(ctx, resource, func(tx *sql.Tx) error {
			return fn(func(sql string) error { _, err := tx.ExecContext(ctx, sql); return err })
		})
	}
}

// A transaction whose fn has failed ends in the time of a ROLLBACK, and not of a COMMIT, if the
// server does not reply.
func TestAnAbortIsNotBoundedAsACommit(t *testing.T) { // not parallel: it sets the bound of all
	usual := *writectx.CommitTimeout
	*writectx.CommitTimeout = time.Hour
	t.Cleanup(func() { *writectx.CommitTimeout = usual })
	for kind, open := range aborts {
		for end, fail := range map[string]func() error{"an error": func() error { return errOwn }, "a panic": func() error { panic(errOwn) }} {
			t.Run(kind+", "+end, func(t *testing.T) {
				t.Parallel()
				do, p := open(t)
				ctx := token.NewContext(t.Context(), token.Token{Resource: resource, Number: 33, Holder: "a"})
				done := make(chan error, 1)
				go func() {
					var err error
					defer func() {
						if recover() == errOwn {
							err = errOwn
						}
						done <- err
					}()
					err = do(ctx, func(exec func(sql string) error) error {
						assert.NoError(t, exec(increment))
						time.Sleep(100 * time.Millisecond) // then the guard asks before it ends the transaction
						p.Blackhole(netfault.Both)
						return fail()
					})
				}()
				select {
				case err := <-done:
					p.Heal(netfault.Both) // the pool closes its connection at once
					require.ErrorIs(t, err, errOwn)
					require.NotErrorIs(t, err, guard.ErrUnknown)
				case <-time.After(time.Minute): // only a hang exceeds this
					require.Fail(t, "it waits as long as a COMMIT may take")
				}
			})
		}
	}
}

func admit(store guard.Store) write {
	return func(ctx context.Context, tok token.Token, sending func()) error {
		sending()
		return store.Admit(ctx, tok)
	}
}

func onPostgres(t *testing.T) (*sqlguard.Guard, string, *netfault.Proxy) {
	t.Helper()
	near, schema := testenv.Postgres(t)
	_, err := near.Exec(t.Context(), "CREATE TABLE "+pgx.Identifier{schema, "accounts"}.Sanitize()+
		" AS SELECT 42::bigint AS id, 0::bigint AS balance, 0::bigint AS last_token, '' AS last_holder")
	require.NoError(t, err)
	server, err := url.Parse(testenv.PostgresURL(t))
	require.NoError(t, err)
	p := proxy(t, server.Host)
	server.Host = p.Addr()
	settings := server.Query()
	settings.Set("search_path", schema)
	server.RawQuery = settings.Encode()
	pool, err := pgxpool.New(t.Context(), server.String()+"&pool_max_conns=1")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return &sqlguard.Guard{DB: pool, Schema: schema}, server.String(), p
}

func onDatabaseSQL(t *testing.T) (*stdsql.Guard, *netfault.Proxy) {
	t.Helper()
	g, server, p := onPostgres(t)
	db, err := sql.Open("pgx", server)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	return &stdsql.Guard{DB: db, Schema: g.Schema}, p
}

func onRedis(t *testing.T) (g *redisguard.Guard, key string, p *netfault.Proxy) {
	t.Helper()
	near, prefix := testenv.Redis(t)
	options := *near.Options()
	p = proxy(t, options.Addr)
	options.Addr, options.PoolSize, options.ReadTimeout = p.Addr(), 1, time.Hour
	client := redis.NewClient(&options)
	t.Cleanup(func() { client.Close() })
	return &redisguard.Guard{Client: client, MarkKey: func(resource string) string { return prefix + resource }}, prefix + "balance", p
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

// A write that was sent and waits for its reply behaves the same on every guard.
//
// hazard G18
func TestAWriteOnItsWay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cause    error         // the cause of the end of its context
		deadline time.Duration // of its context
		want     []error       // empty if it continues; a write also returns ErrUnknown
	}{
		"the lease is lost":                          {lost, time.Hour, nil},
		"the lease is released":                      {token.ErrReleased, time.Hour, nil},
		"the caller cancels":                         {context.Canceled, time.Hour, []error{context.Canceled}},
		"the deadline passes":                        {nil, 200 * time.Millisecond, []error{context.DeadlineExceeded}},
		"the lease is lost, the deadline passes":     {lost, 200 * time.Millisecond, []error{context.DeadlineExceeded, token.ErrLost}},
		"the lease is released, the deadline passes": {token.ErrReleased, 200 * time.Millisecond, []error{context.DeadlineExceeded}},
	} {
		for kind, open := range writes {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				do, p := open(t)
				want := c.want
				if len(want) > 0 && !strings.HasSuffix(kind, "Admit") { // a claim writes nothing
					want = append(slices.Clone(want), guard.ErrUnknown)
				}
				onItsWay(t, do, p, c.deadline, c.cause, want)
			})
		}
	}
}

// Nothing cuts off a COMMIT that was sent.
//
// hazard G18
func TestACommitOnItsWay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cause    error
		deadline time.Duration
	}{
		"the lease is lost":     {lost, time.Hour},
		"the lease is released": {token.ErrReleased, time.Hour},
		"the caller cancels":    {context.Canceled, time.Hour},
		"the deadline passes":   {nil, 200 * time.Millisecond},
	} {
		for kind, open := range commits {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				do, p := open(t)
				onItsWay(t, do, p, c.deadline, c.cause, nil)
			})
		}
	}
}

// onItsWay ends the context of a write that gets no reply. On a slow machine the deadline
// may pass before that: then it tries again with more time.
func onItsWay(t *testing.T, do write, p *netfault.Proxy, deadline time.Duration, cause error, want []error) {
	t.Helper()
	for late := true; late; deadline *= 2 {
		late = tryOnItsWay(t, do, p, deadline, cause, want)
	}
}

// tryOnItsWay reports whether the deadline had passed too early.
func tryOnItsWay(t *testing.T, do write, p *netfault.Proxy, deadline time.Duration, cause error, want []error) (late bool) {
	t.Helper()
	tok := token.Token{Resource: resource, Number: 33, Holder: "a"}
	held := token.NewContext(t.Context(), tok)
	require.NoError(t, do(held, tok, func() {}), "it has a connection, and tok is claimed")
	outer, stop := context.WithTimeout(held, deadline)
	defer stop()
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	twin := plainRequest(t, ctx)
	defer p.Heal(netfault.ToClient)
	done, sending := make(chan error, 1), make(chan struct{})
	go func() {
		done <- do(ctx, tok, func() { p.Blackhole(netfault.ToClient); close(sending) })
	}()
	select {
	case <-sending:
	case <-ctx.Done():
	}
	require.Eventually(t, func() bool { return p.Held(netfault.ToClient) > 0 || ctx.Err() != nil }, 2*time.Minute, time.Millisecond)
	inTime := p.Held(netfault.ToClient) > 0
	if cause != nil {
		cancel(cause)
		inTime = inTime && context.Cause(ctx) == cause
	}
	if !inTime {
		p.Heal(netfault.ToClient)
		t.Logf("late: %v", <-done)
		return true
	}
	require.Error(t, <-twin, "the same context cuts off a plain request")
	if want == nil {
		select {
		case err := <-done:
			t.Fatalf("it was cut off: %v", err)
		default:
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

// plainRequest makes a request that gets no response, and returns the channel of its
// error.
func plainRequest(t *testing.T, ctx context.Context) <-chan error {
	t.Helper()
	arrived, done := make(chan struct{}), make(chan error, 1)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}))
	t.Cleanup(service.Close)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, service.URL, http.NoBody)
	require.NoError(t, err)
	go func() {
		resp, err := service.Client().Do(req)
		if err == nil {
			err = resp.Body.Close()
		}
		done <- err
	}()
	select {
	case <-arrived:
	case <-ctx.Done():
	}
	return done
}

// If the context has ended before, nothing is sent. If only the lease is lost, the write
// is sent, and its mark decides. A Transport sends nothing then.
func TestAWriteUnderAnEndedContext(t *testing.T) {
	t.Parallel()
	for kind, open := range writes {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			do, _ := open(t)
			under := func(number int64, cause error) error {
				tok := token.Token{Resource: resource, Number: number, Holder: "a"}
				ctx, cancel := context.WithCancelCause(token.NewContext(t.Context(), tok))
				cancel(cause)
				return do(ctx, tok, func() {})
			}
			for _, cause := range []error{token.ErrReleased, context.Canceled, errOwn} {
				err := under(33, cause)
				require.ErrorIs(t, err, cause)
				require.NotErrorIs(t, err, guard.ErrUnknown)
			}
			err := under(33, lost)
			if kind == overHTTP {
				require.ErrorIs(t, err, token.ErrLost)
				require.NotErrorIs(t, err, guard.ErrUnknown)
				return
			}
			require.NoError(t, err)
			require.NoError(t, under(34, lost))
			err = under(33, lost)
			require.ErrorIs(t, err, guard.ErrStale)
			require.ErrorIs(t, err, token.ErrLost)
		})
	}
}
