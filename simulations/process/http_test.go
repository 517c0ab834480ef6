package process_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/httppoint"
)

// newService serves the ledger from the test's process, which is not stopped: under
// /guarded behind the fence, and under /observed with refusals ignored, for the twin.
func newService(t *testing.T) conf {
	t.Helper()
	c, pool := newLedger(t)
	mux := http.NewServeMux()
	for path, observe := range map[string]bool{"/guarded": false, "/observed": true} {
		l := ledgerOf(c, pool)
		l.fence.DangerouslyReportOnly, l.fence.Hooks = observe, guard.Hooks{Reported: func(context.Context, error) {}}
		middleware := httpguard.Middleware{Resources: httpguard.Pattern("account/{id}")}
		mux.Handle(path+"/accounts/{id}", middleware.Wrap(http.HandlerFunc(l.serve)))
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c.Service = server.URL
	return c
}

// received is the step of a service that has admitted a write, and has not written yet.
const received = "received"

// serve admits before it reads: a GET with a token claims.
func (l *ledger) serve(w http.ResponseWriter, r *http.Request) {
	units, err := newUnits(r)
	if err != nil {
		httpguard.Error(w, r, err)
		return
	}
	err = l.fence.Update(r.Context(), resource, func(tx pgx.Tx) (err error) {
		if r.Method == http.MethodGet {
			return tx.QueryRow(r.Context(), l.reads, resource).Scan(&units)
		}
		_, err = tx.Exec(r.Context(), l.writes, resource, units)
		return err
	})
	if err != nil {
		httpguard.Error(w, r, err)
		return
	}
	fmt.Fprint(w, units)
}

// newUnits returns the units that a write sends, and zero for a read.
func newUnits(r *http.Request) (units int, err error) {
	if r.Method == http.MethodGet {
		return 0, nil
	}
	simulations.Failpoint(r.Context(), received)
	return strconv.Atoi(r.FormValue("units"))
}

// serveChecked relies on the check of the middleware in front of it.
func (l *ledger) serveChecked(w http.ResponseWriter, r *http.Request) {
	units, err := newUnits(r)
	if r.Method == http.MethodGet {
		units, err = l.Count(r.Context())
	} else if err == nil {
		simulations.Failpoint(r.Context(), "begin") // no tracer reports it
		_, err = l.pool.Exec(r.Context(), l.writes, resource, units)
	}
	if err != nil {
		httpguard.Error(w, r, err)
		return
	}
	fmt.Fprint(w, units)
}

// openReplica is a replica of the service in the process of its caller: A's and B's write
// to one database.
func openReplica(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	return openService(ctx, text, (*ledger).serve)
}

// openCheckingReplica is a replica whose handler writes without a guard.
func openCheckingReplica(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	return openService(ctx, text, (*ledger).serveChecked)
}

func openService(ctx context.Context, text string, serve func(*ledger, http.ResponseWriter, *http.Request)) (simulations.Subject, func() error, error) {
	_, l, s, end, err := servers(ctx, text)
	if err != nil {
		return s, nil, err
	}
	middleware := httpguard.Middleware{Resources: httpguard.Pattern("account/{id}"), Store: l.fence}
	mux := http.NewServeMux()
	mux.Handle("/accounts/{id}", middleware.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(l, w, r) })))
	server := httptest.NewServer(httppoint.Handler(mux))
	client := &http.Client{Transport: httpguard.Transport{Hosts: []string{server.Listener.Addr().String()}, Base: httppoint.Transport{}}}
	s.Mark, s.MaxBlocking = l.mark, l.fence.IdleTimeout
	s.Do = func(ctx context.Context) error { return add(ctx, client, server.URL+"/accounts/42") }
	return s, func() error {
		client.CloseIdleConnections()
		server.Close()
		return end()
	}, nil
}

// openHTTP reads, computes, and writes over HTTP.
func openHTTP(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	c, l, s, end, err := servers(ctx, text)
	if err != nil {
		return s, nil, err
	}
	service, err := url.Parse(c.Service)
	if err != nil {
		return s, nil, err
	}
	client := &http.Client{Transport: &httpguard.Transport{Base: &http.Transport{}, Hosts: []string{service.Host}}}
	s.Mark, s.MaxBlocking = l.mark, l.fence.IdleTimeout
	s.Do = func(ctx context.Context) error { return add(ctx, client, c.Service+"/guarded/accounts/42") }
	s.Unguarded = func(ctx context.Context) error { return add(ctx, client, c.Service+"/observed/accounts/42") }
	return s, func() error {
		client.CloseIdleConnections()
		return end()
	}, nil
}

func add(ctx context.Context, client *http.Client, account string) error {
	seen, err := call(ctx, client, http.MethodGet, account)
	if err != nil {
		return err
	}
	units, err := strconv.Atoi(seen)
	if err != nil {
		return err
	}
	simulations.Failpoint(ctx, computed)
	_, err = call(ctx, client, http.MethodPut, fmt.Sprintf("%s?units=%d", account, units+1))
	return err
}

func call(ctx context.Context, client *http.Client, method, address string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return "", err
	case resp.StatusCode == http.StatusServiceUnavailable:
		return "", fmt.Errorf("%w: %s", guard.ErrRetryable, body)
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%w: %s: %s", guard.ErrUnknown, resp.Status, body)
	}
	return string(body), nil
}
