package simulations_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/httppoint"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token/redistoken"
)

// The caller holds the lock, and reads and writes over a service, which guards
// its rows.
func TestRunOverHTTP(t *testing.T) {
	t.Parallel()
	rdb, prefix := testenv.Redis(t)
	u := newTable(t)
	fence := &sqlguard.Guard{DB: u.pool, Schema: u.schema, Idle: idle}
	url, client := serve(t, u, fence)
	simulations.Run(t, simulations.Subject{
		Issuer: &redistoken.Issuer{Client: rdb, Prefix: prefix}, Resource: resource,
		Count: u.Count, Bound: idle,
		Do: func(ctx context.Context) error {
			var n int
			if err := call(ctx, client, http.MethodGet, url, &n); err != nil { // claims
				return err
			}
			n++
			return call(ctx, client, http.MethodPut, url, &n)
		},
	})
}

// serve serves the table, with the middleware in front of guarded writes.
func serve(t *testing.T, u *table, fence *sqlguard.Guard) (url string, client *http.Client) {
	t.Helper()
	mux := http.NewServeMux()
	// Most interleavings wait, once for each sleeper, before they are told to come again.
	guarded := httpguard.Middleware{Resources: httpguard.Pattern("account/{id}"), Store: fence, Wait: idle / 5}
	mux.Handle("/accounts/{id}", guarded.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		var err error
		if r.Method == http.MethodGet {
			n, err = u.Count(r.Context())
		} else if _, err = fmt.Sscan(r.URL.Query().Get("n"), &n); err == nil {
			err = fence.Update(r.Context(), resource, func(tx pgx.Tx) error {
				_, err := tx.Exec(r.Context(), u.sets, n)
				return err
			})
		}
		if err != nil {
			httpguard.Error(w, r, err)
			return
		}
		fmt.Fprint(w, n)
	})))
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
