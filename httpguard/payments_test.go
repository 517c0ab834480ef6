package httpguard_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
)

// payments is a service on PostgreSQL: each unit adds 1 to the balance of an account, and
// is answered with the number of the payment.
type payments struct {
	t      *testing.T
	pool   *pgxpool.Pool
	schema string
	table  string
	fence  *sqlguard.Guard

	made   atomic.Int64                                    // calls of the unit's function
	during func(ctx context.Context, tx pgx.Tx) error      // called after the write; nil: nothing
	reply  func(w http.ResponseWriter, stored []byte) bool // called before the response: false: no response
}

func newPayments(t *testing.T) *payments {
	t.Helper()
	pool, schema := testenv.Postgres(t)
	return &payments{
		t: t, pool: pool, schema: schema, table: pgtest.Accounts(t, pool, schema, 42, 43),
		fence: &sqlguard.Guard{DB: pool, Schema: schema, IdleTimeout: time.Hour},
	}
}

// routed is the middleware of a route that is applied by Once.
var routed = httpguard.Middleware{Resources: accounts, DangerouslySkipInFlight: true}

func callerOf(r *http.Request) (string, error) {
	if r.Header.Get("X-Caller") == "broken" {
		return "", errors.New("secret: no session")
	}
	return r.Header.Get("X-Caller"), nil
}

// serve starts a process of the service.
func (p *payments) serve(m httpguard.Middleware, i httpguard.Idempotency) site {
	p.t.Helper()
	handler := m.Wrap(i.Wrap(p))
	mux := http.NewServeMux()
	mux.Handle("/accounts/{id}", handler)
	mux.Handle("/accounts/{id}/{more}", handler)
	return serve(p.t, mux, false)
}

func (p *payments) start() site {
	p.t.Helper()
	return p.serve(routed, httpguard.Idempotency{Service: "payments", Caller: callerOf})
}

func (p *payments) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	unit, ok := httpguard.UnitFromContext(r.Context())
	if !ok {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	stored, err := p.fence.Once(r.Context(), "account/"+r.PathValue("id"), unit, func(tx pgx.Tx) ([]byte, error) {
		return p.pay(r.Context(), tx, r.PathValue("id"))
	})
	if err != nil {
		httpguard.Error(w, r, err)
		return
	}
	if p.reply == nil || p.reply(w, stored) {
		httpguard.WriteAnswer(w, r, stored)
	}
}

// pay is the unit's function.
func (p *payments) pay(ctx context.Context, tx pgx.Tx, id string) ([]byte, error) {
	made := p.made.Add(1)
	if _, err := tx.Exec(ctx, "UPDATE "+p.table+" SET balance = balance + 1 WHERE id = $1::text::bigint", id); err != nil {
		return nil, err
	}
	if p.during != nil {
		if err := p.during(ctx, tx); err != nil {
			return nil, err
		}
	}
	return httpguard.Answer{
		Status: http.StatusCreated,
		Header: http.Header{"Location": {fmt.Sprint("/payments/", made)}, "Content-Type": {"text/plain"}},
		Body:   fmt.Append(nil, "payment ", made),
	}.Encode(ctx)
}

// balance returns the sum over both accounts, less the 200 that they begin with.
func (p *payments) balance() int64 {
	p.t.Helper()
	return pgtest.Query[int64](p.t, p.pool, "SELECT sum(balance)::bigint - 200 FROM "+p.table)
}

// order is a request of a test. The zero order is POST /accounts/42 with the body "1" and
// the key "k", by caller "a" under token 33.
type order struct {
	caller, method, path, query, kind, body string
	host                                    string // empty: localhost
	fields                                  http.Header
	key                                     []string
	number                                  int64
	chunked                                 bool
}

func (o order) or() order {
	fill := func(s *string, value string) {
		if *s == "" {
			*s = value
		}
	}
	fill(&o.caller, "a")
	fill(&o.method, "POST")
	fill(&o.path, "/accounts/42")
	fill(&o.body, "1")
	fill(&o.host, "localhost")
	if o.key == nil {
		o.key = []string{`"k"`}
	}
	if o.number == 0 {
		o.number = 33
	}
	return o
}

func (s site) order(o order) *http.Request {
	s.t.Helper()
	o = o.or()
	path, _, _ := strings.Cut(o.path, "?")
	resource := "account/" + strings.Split(path, "/")[2]
	req := s.request(s.t.Context(), o.method, o.path+o.query, strings.NewReader(o.body), line(resource, o.number, fmt.Sprint("h", o.number)))
	maps.Copy(req.Header, o.fields)
	req.Header["Idempotency-Key"] = o.key
	req.Header.Set("X-Caller", o.caller)
	req.Host = o.host
	if o.chunked {
		req.ContentLength = -1
	}
	if o.kind != "" {
		req.Header.Set("Content-Type", o.kind)
	}
	return req
}

func (s site) place(o order) reply {
	s.t.Helper()
	return s.send(s.Client(), s.order(o))
}

// placed sends an order in a goroutine of its own.
func (s site) placed(o order) <-chan reply {
	s.t.Helper()
	req, done := s.order(o), make(chan reply, 1)
	go func() { done <- s.send(s.Client(), req) }()
	return done
}

// requirePayment requires that an answer is that of a payment that its request has made.
func requirePayment(t *testing.T, number int, got reply) {
	t.Helper()
	require.Empty(t, got.header["Idempotency-Replayed"])
	requireAnswer(t, number, got)
}

// requireReplayed requires that an answer is that of a payment of an earlier request.
func requireReplayed(t *testing.T, number int, got reply) {
	t.Helper()
	requireAnswer(t, number, got)
	require.Equal(t, []string{"true"}, got.header["Idempotency-Replayed"])
}

func requireAnswer(t *testing.T, number int, got reply) {
	t.Helper()
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, fmt.Sprint("/payments/", number), got.header.Get("Location"))
	require.Equal(t, "text/plain", got.header.Get("Content-Type"))
	require.Equal(t, fmt.Sprint("payment ", number), got.body)
}

func requireProblem(t *testing.T, status int, typ string, got reply) {
	t.Helper()
	require.Equal(t, status, got.status, got.body)
	require.Equal(t, typ, got.problem(t)["type"])
}
