package paused

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/sqlguard"
)

type write func(ctx context.Context, balance int) error

// way is how a write reaches the row, and how a refusal looks from there.
type way struct {
	name    string
	open    func(t *testing.T, fence *sqlguard.Guard, a accounts) write
	refused func(t *testing.T, err error)
}

var ways = []way{
	{"Update", byUpdate, isStale},
	{"On", byOn, isStale},
	{"HTTP service in front of sqlguard", byHTTP, isStale},
}

func byUpdate(_ *testing.T, fence *sqlguard.Guard, a accounts) write {
	return func(ctx context.Context, balance int) error {
		return fence.Update(ctx, resource, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, a.write, balance)
			return err
		})
	}
}

func byOn(_ *testing.T, fence *sqlguard.Guard, a accounts) write {
	return func(ctx context.Context, balance int) error {
		_, err := fence.On(resource).Exec(ctx, a.write, balance)
		return err
	}
}

// byHTTP has no mark store in the middleware: the handler's write is the fence.
func byHTTP(t *testing.T, fence *sqlguard.Guard, a accounts) write {
	inner := byUpdate(t, fence, a)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		balance, err := strconv.Atoi(r.FormValue("balance"))
		if err == nil {
			err = inner(r.Context(), balance)
		}
		if err != nil {
			httpguard.Error(w, r, err)
		}
	})
	mux := http.NewServeMux()
	mux.Handle("PUT /accounts/{id}", httpguard.Middleware{Resources: httpguard.Pattern("account/{id}")}.Wrap(handler))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	client := &http.Client{Transport: &httpguard.Transport{Hosts: []string{host}}}
	return func(ctx context.Context, balance int) error { return put(ctx, client, server.URL, balance) }
}

func put(ctx context.Context, client *http.Client, url string, balance int) error {
	url = fmt.Sprintf("%s/accounts/42?balance=%d", url, balance)
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, http.NoBody)
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
	return nil
}

func isStale(t *testing.T, err error) { require.ErrorIs(t, err, guard.ErrStale) }
