package simulations_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/httppoint"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token/redistoken"
)

// The caller holds the lock, and reads and writes through a service, which guards its rows.
func runOverHTTP(t *testing.T, try scope) {
	rdb, prefix := testenv.Redis(t)
	u := newTable(t)
	fence := &sqlguard.Guard{DB: u.pool, Schema: u.schema, IdleTimeout: idle}
	url, client := serve(t, u, fence)
	simulations.Run(t, try(simulations.Subject{
		Issuer: &redistoken.Issuer{Client: rdb, Prefix: prefix}, Resource: resource,
		Count: u.Count, MaxBlocking: idle,
		Do: func(ctx context.Context) error {
			var n int
			if err := call(ctx, client, http.MethodGet, url, &n); err != nil { // claims
				return err
			}
			n++
			return call(ctx, client, http.MethodPut, url, &n)
		},
	}))
}

// serve serves the table, with the middleware in front of guarded writes.
func serve(t *testing.T, u *table, fence *sqlguard.Guard) (url string, client *http.Client) {
	t.Helper()
	mux := http.NewServeMux()
	// Most interleavings wait for this, once for each paused holder.
	guarded := httpguard.Middleware{Resources: httpguard.Pattern("account/{id}"), Store: fence, WaitTimeout: idle / 5}
	mux.Handle("/accounts/{id}", guarded.Wrap(u.handler(func(ctx context.Context, n int) error { return guardedWrite(ctx, fence, u.sets, n) })))
	server := httptest.NewServer(httppoint.Handler(mux))
	t.Cleanup(server.Close)
	hosts := []string{strings.TrimPrefix(server.URL, "http://")}
	return server.URL + "/accounts/42", &http.Client{
		Transport: httppoint.Transport{Base: httpguard.Transport{Hosts: hosts}},
	}
}

func call(ctx context.Context, client *http.Client, method, url string, n *int) error {
	req, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("%s?n=%d", url, *n), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", resp.Status)
	}
	_, err = fmt.Fscan(resp.Body, n)
	return err
}

// counter is a service in one or more replicas over one table, and a client of all. Each replica
// has its own in-flight table, like a process.
type counter struct {
	*table
	client *http.Client
	urls   []string
	units  atomic.Int64
	issuer *redistoken.Issuer
	locks  *lock.Locker
}

// openCounter starts a service that writes by write, behind the middleware if wrapped is
// true.
func openCounter(t *testing.T, replicas int, wrapped bool, write writing) *counter {
	t.Helper()
	redis, prefix := testenv.Redis(t)
	c := &counter{table: newTable(t), issuer: &redistoken.Issuer{Client: redis, Prefix: prefix}}
	fence := &sqlguard.Guard{DB: c.pool, Schema: c.schema}
	c.locks = &lock.Locker{Issuer: c.issuer, Claim: fence.Admit}
	var hosts []string
	for range replicas {
		mux := http.NewServeMux()
		handler := c.handler(func(ctx context.Context, n int) error { return write(ctx, fence, c.sets, n) })
		if wrapped {
			handler = httpguard.Middleware{Resources: httpguard.Pattern("account/{id}"), Store: fence, InFlight: new(httpguard.InFlight), WaitTimeout: 10 * time.Millisecond}.Wrap(handler)
		}
		mux.Handle("/accounts/{id}", handler)
		server := httptest.NewServer(httppoint.Handler(mux))
		t.Cleanup(server.Close)
		hosts = append(hosts, server.Listener.Addr().String())
		c.urls = append(c.urls, server.URL+"/accounts/42")
	}
	c.client = &http.Client{Transport: httpguard.Transport{Hosts: hosts, Base: httppoint.Transport{}}}
	return c
}

// handler serves the table to readers, and to writers by write.
func (t *table) handler(write func(ctx context.Context, n int) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		var err error
		if r.Method == http.MethodGet {
			n, err = t.Count(r.Context())
		} else if _, err = fmt.Sscan(r.URL.Query().Get("n"), &n); err == nil {
			err = write(r.Context(), n)
		}
		if err != nil {
			httpguard.Error(w, r, err)
			return
		}
		fmt.Fprint(w, n)
	})
}

// writing is how a replica writes.
type writing func(ctx context.Context, fence *sqlguard.Guard, sets string, n int) error

func guardedWrite(ctx context.Context, fence *sqlguard.Guard, sets string, n int) error {
	return fence.Update(ctx, resource, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sets, n)
		return err
	})
}

func plainWrite(ctx context.Context, fence *sqlguard.Guard, sets string, n int) error {
	_, err := fence.DB.(*pgxpool.Pool).Exec(ctx, sets, n)
	return err
}

// work reads from and writes to the next replica.
func (c *counter) work(ctx context.Context) error {
	url := c.urls[c.units.Add(1)%int64(len(c.urls))]
	var n int
	if err := call(ctx, c.client, http.MethodGet, url, &n); err != nil {
		return err
	}
	n++
	return call(ctx, c.client, http.MethodPut, url, &n)
}

func (c *counter) hold(ctx context.Context, fn func(context.Context) error) error {
	return c.locks.Hold(ctx, resource, fn)
}

func (c *counter) holdUnclaimed(ctx context.Context, fn func(context.Context) error) error {
	return holdUnclaimed(ctx, c.issuer, fn)
}

func (c *counter) guarded(ctx context.Context) error { return c.hold(ctx, c.work) }

func (c *counter) subject(unit func(context.Context) error) simulations.Subject {
	return simulations.Subject{Issuer: c.issuer, Resource: resource, Do: unit, Holds: true, Count: c.Count}
}

// These are a service behind the middleware, and its clients, with one mistake each.
func TestWrongProgramsOverHTTPAreNamed(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]struct {
		says    string
		wrapped bool
		write   writing
		unit    func(c *counter) func(context.Context) error
	}{
		"no middleware":                     {"no guard at all", false, plainWrite, held((*counter).work)},  // hazard G2
		"the middleware, and a plain write": {"check, then write", true, plainWrite, held((*counter).work)}, // hazard G1
		"412 ignored":                       {"a refusal swallowed", true, guardedWrite, ignoring[*counter](guard.ErrStale)},
		"an unknown taken for a success":    {"unknown taken for an answer", true, guardedWrite, ignoring[*counter](guard.ErrUnknown)},
		"retry after unknown":               {"retry after unknown", true, guardedWrite, again[*counter](guard.ErrUnknown)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := openCounter(t, 2, p.wrapped, p.write)
			began := time.Now()
			err := checkPlanned(t, untilFound(c.subject(p.unit(c))))
			t.Logf("after %s: %v", time.Since(began).Round(time.Millisecond), err)
			require.ErrorContains(t, err, "Likely: "+p.says)
		})
	}
}

func runRightOverHTTP(t *testing.T, try scope) {
	c := openCounter(t, 2, true, guardedWrite)
	began := time.Now()
	covered, err := simulations.Cover(t.Context(), try(c.subject(c.guarded)))
	t.Logf("after %s: %s", time.Since(began).Round(time.Millisecond), covered)
	require.NoError(t, err)
	require.Contains(t, covered, "tracers: HTTP, pgx")
	require.Contains(t, covered, "answers to writes were lost")
}

// With one replica its in-flight table hides a check in front of a write that is not
// guarded. The coverage reports the write.
func TestAPlainWriteBehindTheMiddlewareIsReported(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]writing{"plain": plainWrite, "guarded": guardedWrite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := openCounter(t, 1, true, write)
			covered, err := simulations.Cover(t.Context(), some(c.subject(c.guarded)))
			require.NoError(t, err)
			require.Equal(t, name == "plain", strings.Contains(covered, "not covered: a write was made outside a guard (UPDATE"), covered)
			require.NotContains(t, covered, "only HTTP was heard")
		})
	}
}

// If the service has no Handler, nothing of it is observed.
func TestAServiceThatIsNotHeardIsReported(t *testing.T) {
	t.Parallel()
	c := openCounter(t, 1, true, plainWrite)
	plain := httptest.NewServer(c.handler(func(ctx context.Context, n int) error {
		_, err := c.pool.Exec(ctx, c.sets, n)
		return err
	}))
	t.Cleanup(plain.Close)
	c.urls = []string{plain.URL}
	s := c.subject(func(ctx context.Context) error { return c.holdUnclaimed(ctx, c.work) })
	s.Unguarded = c.work
	covered, err := simulations.Cover(t.Context(), untilFound(s))
	require.Error(t, err)
	require.Contains(t, covered, "not covered: only HTTP was heard: writes of the service were not observed")
}
