package routers_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/internal/bank"
	"github.com/fencepost/fencepost/examples/routers"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

const opening = 1_000_000

// open returns accounts with account 42, in a database for this test only.
func open(t *testing.T) *routers.Accounts {
	t.Helper()
	db := bank.DB(t, fmt.Sprintf(`CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL);
		INSERT INTO accounts VALUES (42, %d)`, opening))
	return &routers.Accounts{DB: db, Fence: &stdsql.Guard{DB: db, IdleTimeout: time.Hour}} // no session is ended on a slow machine
}

func balance(t *testing.T, a *routers.Accounts) (balance int) {
	t.Helper()
	require.NoError(t, a.DB.QueryRowContext(t.Context(), "SELECT balance FROM accounts WHERE id = 42").Scan(&balance))
	return balance
}

// guarded returns the example's guard with an InFlight of the test's own: other tests run
// at the same time and also have an account 42.
func guarded(store guard.Store) httpguard.Middleware {
	m := routers.Guarded(store)
	m.InFlight = new(httpguard.InFlight)
	return m
}

// serve returns a server of handler.
func serve(t *testing.T, handler http.Handler, two bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = discarded // it would log the panics of handlers
	s.EnableHTTP2 = two
	if two {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// reply is a complete answer.
type reply struct {
	status int
	kind   string // the problem's type, without the common prefix
	body   string
}

// put sends a request with the given lines of the field.
func put(t *testing.T, s *httptest.Server, path, body string, lines ...string) reply {
	t.Helper()
	resp, err := s.Client().Do(request(t, s, path, strings.NewReader(body), lines...))
	require.NoError(t, err)
	return read(t, resp, s.EnableHTTP2)
}

func request(t *testing.T, s *httptest.Server, path string, body io.Reader, lines ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL+path, body)
	require.NoError(t, err)
	for _, line := range lines {
		req.Header.Add(httpguard.Header, line)
	}
	return req
}

func read(t *testing.T, resp *http.Response, two bool) reply {
	t.Helper()
	defer resp.Body.Close()
	require.Equal(t, two, resp.ProtoMajor == 2, "the protocol under test")
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	got := reply{status: resp.StatusCode, body: string(body)}
	if resp.Header.Get("Content-Type") == "application/problem+json" {
		require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
		got.kind = kind(t, body)
	}
	return got
}

func kind(t *testing.T, body []byte) string {
	t.Helper()
	var problem struct{ Type string }
	require.NoError(t, json.Unmarshal(body, &problem), "%s", body)
	_, name, _ := strings.Cut(problem.Type, "#")
	return name
}

// line returns a field with one token.
func line(resource string, number int) string {
	return fmt.Sprintf(`%d;r="%s";h="h%d"`, number, resource, number)
}
