package httpguard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/token"
)

// The vectors have more of these.
func TestWhichRequestsAreOneUnit(t *testing.T) {
	t.Parallel()
	field := func(name, value string) order { return order{fields: http.Header{name: {value}}} }
	for name, c := range map[string]struct {
		next  order
		spelt string // the path as it is sent
		same  bool   // a repeat, and not another request under the key
	}{
		"a spelling of the path":     {order{}, "/accounts/%342", false},
		"a location":                 {field("Content-Location", "x"), "", false},
		"a range":                    {field("Content-Range", "x"), "", false},
		"a disposition":              {field("Content-Disposition", "x"), "", false},
		"a language":                 {field("Content-Language", "de"), "", false},
		"lines, combined":            {field("Content-Language", "de, en"), "", true},
		"a host in upper case":       {order{host: "LOCALHOST"}, "", true},
		"a length that is not known": {order{chunked: true}, "", true},
		"a field of the attempt":     {field("User-Agent", "x"), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPayments(t)
			s := p.start()
			first := order{fields: http.Header{"Content-Language": {"de", "en"}}}
			requirePayment(t, 1, s.place(first))
			req := s.order(c.next)
			if _, has := req.Header["Content-Language"]; !has {
				req.Header["Content-Language"] = first.fields["Content-Language"]
			}
			req.URL.RawPath = c.spelt
			if got := s.send(s.Client(), req); c.same {
				requireReplayed(t, 1, got)
			} else {
				requireProblem(t, 422, httpguard.ProblemKeyReused, got)
			}
			requireReplayed(t, 1, s.place(first))
			requirePayment(t, 2, s.place(order{path: "/accounts/43"}))
			require.EqualValues(t, 2, p.balance())
		})
	}
}

// Each pair differs only in where one of two adjacent parts ends.
func TestUnitsDoNotDependOnWhereAPartEnds(t *testing.T) {
	t.Parallel()
	unitOf := func(service string, o order) (unit guard.Unit) {
		r := httptest.NewRequest("POST", "/accounts/42"+o.query, strings.NewReader(o.body))
		r.Header.Set("X-Caller", o.caller)
		r.Header.Set("Idempotency-Key", "k")
		httpguard.Idempotency{Service: service, Caller: callerOf}.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			unit, _ = httpguard.UnitFromContext(r.Context())
		})).ServeHTTP(httptest.NewRecorder(), r)
		require.NoError(t, unit.Validate())
		require.Regexp(t, "^http/[0-9a-f]{64}$", unit.Key)
		return unit
	}
	require.NotEqual(t, unitOf("ab", order{caller: "c"}).Key, unitOf("a", order{caller: "bc"}).Key)
	require.NotEqual(t, unitOf("a", order{caller: "b", query: "?1", body: "23"}).Fingerprint,
		unitOf("a", order{caller: "b", query: "?12", body: "3"}).Fingerprint)
}

func TestWhatIdempotencyRefuses(t *testing.T) {
	t.Parallel()
	p := newPayments(t)
	s := p.serve(routed, httpguard.Idempotency{Service: "payments", Caller: callerOf, MaxBody: 3})
	for name, c := range map[string]struct {
		order  order
		status int
		typ    string
		detail string
	}{
		"no key":              {order{key: []string{}}, 400, httpguard.ProblemKeyMissing, "the field Idempotency-Key"},
		"two lines":           {order{key: []string{`"k"`, `"k"`}}, 400, httpguard.ProblemMalformed, "must have one line"},
		"a list":              {order{key: []string{`"k", "l"`}}, 400, httpguard.ProblemMalformed, "must be an Item"},
		"an empty String":     {order{key: []string{`""`}}, 400, httpguard.ProblemMalformed, "at least one character"},
		"other letters":       {order{key: []string{"größe"}}, 400, httpguard.ProblemMalformed, "must be an Item"},
		"a long body":         {order{body: "1234"}, 413, "about:blank", "too long"},
		"no identity":         {order{caller: "broken"}, 500, "about:blank", ""},
		"no token":            {order{path: "/accounts/43", number: -1}, 400, httpguard.ProblemMalformed, "Fencing-Token"},
		"a body of the limit": {order{body: "123", key: []string{`"limit"`}}, 201, "", ""},
	} {
		got := s.place(c.order)
		require.NotContains(t, got.body, "secret", name)
		if c.status == http.StatusCreated {
			require.Equal(t, c.status, got.status, name)
			continue
		}
		requireProblem(t, c.status, c.typ, got)
		if c.detail != "" {
			require.Contains(t, got.problem(t)["detail"], c.detail, name)
		}
		require.Empty(t, got.header.Get("Retry-After"), name)
	}
	require.EqualValues(t, 1, p.made.Load())
	require.True(t, logged.has("secret: no session"))
}

func TestIdempotencyFailsClosedWithoutACaller(t *testing.T) {
	t.Parallel()
	p := newPayments(t)
	s := p.serve(routed, httpguard.Idempotency{Service: "payments", Optional: true, Caller: func(*http.Request) (string, error) { return "", nil }})
	for _, key := range [][]string{{}, {`"k"`}} {
		requireProblem(t, 500, "about:blank", s.place(order{key: key}))
	}
	require.Zero(t, p.made.Load())
	require.PanicsWithValue(t, "httpguard: Idempotency.Service is empty", func() { httpguard.Idempotency{Caller: callerOf}.Wrap(p) })
	require.PanicsWithValue(t, "httpguard: Idempotency.Caller is nil", func() { httpguard.Idempotency{Service: "payments"}.Wrap(p) })
}

// hazard W17
// A trailer gives no key, and is no field of the content. A handler whose work depended on
// a trailer would miss that a repeat has another one.
func TestATrailerIsNoPartOfAUnit(t *testing.T) {
	t.Parallel()
	p := newPayments(t)
	var seen []http.Header
	keys := httpguard.Idempotency{Service: "payments", Caller: callerOf}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Trailer)
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Equal(t, "1", string(body), "the handler reads the body")
		r.SetPathValue("id", "42")
		p.ServeHTTP(w, r)
	}))
	s := serve(t, httpguard.Middleware{Resources: httpguard.Pattern("account/42"), DangerouslySkipInFlight: true}.Wrap(keys), false)
	send := func(o order, trailer http.Header) reply {
		o.chunked = true
		req := s.order(o)
		req.Trailer = trailer
		return s.send(s.Client(), req)
	}
	requireProblem(t, 400, httpguard.ProblemKeyMissing, send(order{key: []string{}}, http.Header{"Idempotency-Key": {`"k"`}}))
	requirePayment(t, 1, send(order{}, http.Header{"Idempotency-Key": {`"other"`}, "Content-Type": {"text/plain"}, "X-Amount": {"1"}}))
	requireReplayed(t, 1, send(order{}, http.Header{"X-Amount": {"2"}}))
	require.Equal(t, []http.Header{nil, nil}, seen)
	require.EqualValues(t, 1, p.balance())
}

// The handler answers 204 to a request without a unit.
func TestRequestsWithoutAUnit(t *testing.T) {
	t.Parallel()
	p := newPayments(t)
	s := p.serve(routed, httpguard.Idempotency{Service: "payments", Caller: callerOf, Optional: true})
	require.Equal(t, http.StatusNoContent, s.place(order{key: []string{}}).status)
	require.Equal(t, http.StatusNoContent, s.place(order{method: "GET"}).status)
	requireProblem(t, 400, httpguard.ProblemMalformed, s.place(order{key: []string{""}}))
	requirePayment(t, 1, s.place(order{}))
}

func TestABodyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for status, broken := range map[int]error{
		400: errors.New("unexpected EOF"),
		413: &http.MaxBytesError{Limit: 1},
		412: fmt.Errorf("a newer request has come: %w", guard.ErrStale),
	} {
		r := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader("1"), failing{broken}))
		r.Header.Set("X-Caller", "a")
		r.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		httpguard.Idempotency{Service: "payments", Caller: callerOf}.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			t.Error("the handler ran")
		})).ServeHTTP(w, r)
		require.Equal(t, status, w.Code)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// At the first one's process a repeat is refused, and at another it waits.
func TestARepeatWhileTheFirstRuns(t *testing.T) {
	t.Parallel()
	p := newPayments(t)
	s, another := p.start(), p.start()
	inside, resume := make(chan struct{}, 1), make(chan struct{})
	p.during = func(context.Context, pgx.Tx) error {
		inside <- struct{}{}
		<-resume
		return nil
	}
	first := s.placed(order{})
	<-inside
	got := s.place(order{number: 34})
	requireProblem(t, 409, httpguard.ProblemInProgress, got)
	require.Equal(t, "1", got.header.Get("Retry-After"))
	elsewhere := another.placed(order{})
	pgtest.AwaitLockWaiters(t, p.pool, p.schema, 1)
	close(resume)
	requirePayment(t, 1, <-first)
	requireReplayed(t, 1, <-elsewhere)
	requireReplayed(t, 1, s.place(order{}))
	require.EqualValues(t, 1, p.balance())
}

// hazard W18
// Each case ends the first try before it is committed: nothing is stored, and the repeat
// runs. The twin stores the answer in a transaction of its own, and stops before it.
func TestATryThatIsRolledBackRunsAgain(t *testing.T) {
	t.Parallel()
	for name, during := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"an error":             func(context.Context, pgx.Tx) error { return errors.New("no stock") },
		"a panic":              func(context.Context, pgx.Tx) error { panic(http.ErrAbortHandler) },
		"the end of a session": func(ctx context.Context, tx pgx.Tx) error { return endSession(ctx, tx) },
		"a field of no Answer": func(context.Context, pgx.Tx) error {
			return encodes(httpguard.Answer{Header: http.Header{"Set-Cookie": {"a=b"}}})
		},
		"an answer without end": func(context.Context, pgx.Tx) error { return guard.CheckResult(make([]byte, guard.MaxResult+1)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPayments(t)
			s := p.start()
			p.during = during
			resp, err := s.Client().Do(s.order(order{}))
			if err == nil {
				require.NoError(t, resp.Body.Close())
				require.NotEqual(t, http.StatusCreated, resp.StatusCode)
			}
			require.Zero(t, p.balance())
			p.during = nil
			requirePayment(t, 2, s.place(order{}))
			requireReplayed(t, 2, s.place(order{}))
			require.EqualValues(t, 1, p.balance())
		})
	}
	t.Run("the twin pays twice", func(t *testing.T) {
		t.Parallel()
		stopped := errors.New("the process stops")
		p := newPayments(t)
		pgtest.Exec(t, p.pool, "CREATE TABLE "+pgtest.In(p.schema, "answers")+" (key text PRIMARY KEY, answer bytea)")
		pay := func(stops bool) error {
			var stored []byte
			err := p.pool.QueryRow(t.Context(), "SELECT answer FROM "+pgtest.In(p.schema, "answers")+" WHERE key = 'k'").Scan(&stored)
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			err = p.fence.Update(token.NewContext(t.Context(), tok("account/42", 33, "h33")), "account/42", func(tx pgx.Tx) (err error) {
				stored, err = p.pay(t.Context(), tx, "42")
				return err
			})
			if err != nil || stops {
				return errors.Join(err, stopped)
			}
			_, err = p.pool.Exec(t.Context(), "INSERT INTO "+pgtest.In(p.schema, "answers")+" VALUES ('k', $1)", stored)
			return err
		}
		require.ErrorIs(t, pay(true), stopped)
		require.NoError(t, pay(false))
		require.NoError(t, pay(false))
		require.EqualValues(t, 2, p.balance())
	})
}

func endSession(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
	return err
}

func encodes(a httpguard.Answer) error {
	_, err := a.Encode(context.Background())
	return err
}

// A stale holder's repeat gets the first result from Once. With a Store the middleware
// refuses it before Once is called, and with InFlight while a newer request is running.
func TestTheRepeatOfAStaleHolder(t *testing.T) {
	t.Parallel()
	p := newPayments(t)
	s := p.start()
	requirePayment(t, 1, s.place(order{}))
	requireReplayed(t, 1, p.start().place(order{number: 34}))
	requirePayment(t, 2, s.place(order{number: 34, key: []string{"next"}}))

	requireReplayed(t, 1, s.place(order{}))
	requireProblem(t, 412, httpguard.ProblemStale, s.place(order{key: []string{"late"}}))
	require.EqualValues(t, 2, p.balance(), "the write stays guarded")

	stored := p.serve(httpguard.Middleware{Resources: accounts, Store: p.fence}, httpguard.Idempotency{Service: "payments", Caller: callerOf})
	requireProblem(t, 412, httpguard.ProblemStale, stored.place(order{}))
	requireReplayed(t, 1, stored.place(order{number: 34}))
	require.EqualValues(t, 2, p.balance())
}
