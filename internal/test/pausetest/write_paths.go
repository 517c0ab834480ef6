package pausetest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/sqlguard"
)

type write func(ctx context.Context, balance int) error

// writePath is a path by which a write reaches the row.
type writePath struct {
	name string
	open func(t *testing.T, fence *sqlguard.Guard, a account) write
}

var writePaths = []writePath{
	{"Update", byUpdate},
	{"On", byOn},
	{"HTTP service in front of sqlguard", byHTTP},
}

func byUpdate(_ *testing.T, fence *sqlguard.Guard, a account) write {
	return func(ctx context.Context, balance int) error {
		return fence.Update(ctx, a.resource, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, a.update, balance)
			return err
		})
	}
}

func byOn(_ *testing.T, fence *sqlguard.Guard, a account) write {
	return func(ctx context.Context, balance int) error {
		_, err := fence.On(a.resource).Exec(ctx, a.update, balance)
		return err
	}
}

// byHTTP has no mark store in the middleware: the handler's guarded write is the fence.
func byHTTP(t *testing.T, fence *sqlguard.Guard, a account) write {
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
	return func(ctx context.Context, balance int) error {
		return put(ctx, client, fmt.Sprintf("%s/accounts/%d?balance=%d", server.URL, a.id, balance))
	}
}

func put(ctx context.Context, client *http.Client, url string) error {
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
