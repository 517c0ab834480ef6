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

// serve admits before it reads: a GET with a token claims.
func (l *ledger) serve(w http.ResponseWriter, r *http.Request) {
	var units int
	err := l.fence.Update(r.Context(), resource, func(tx pgx.Tx) (err error) {
		if r.Method == http.MethodGet {
			return tx.QueryRow(r.Context(), l.reads, resource).Scan(&units)
		}
		if units, err = strconv.Atoi(r.FormValue("units")); err == nil {
			_, err = tx.Exec(r.Context(), l.writes, resource, units)
		}
		return err
	})
	if err != nil {
		httpguard.Error(w, r, err)
		return
	}
	fmt.Fprint(w, units)
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
