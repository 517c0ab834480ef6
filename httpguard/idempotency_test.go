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
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
)

func TestARepeatGetsTheStoredAnswer(t *testing.T) {
	t.Parallel()
	p := newPayments(t)
	s, another := p.start(), p.start()
	requirePayment(t, 1, s.place(order{}))
	for _, s := range []site{s, another} {
		requireReplayed(t, 1, s.place(order{}))
	}
	requireReplayed(t, 1, another.place(order{number: 34}))
	requireReplayed(t, 1, s.place(order{key: []string{"k"}}))
	requireReplayed(t, 1, s.place(order{key: []string{`"k";v=1`}}))
	require.EqualValues(t, 1, p.balance())
}

func TestWhichRequestsAreOneUnit(t *testing.T) {
	t.Parallel()
	content := func(name string) order { return order{fields: http.Header{name: {"x"}}} }
	for name, c := range map[string]struct {
		next   order
		status int // 200: a repeat, 201: another unit
	}{
		"another caller":             {order{caller: "b"}, 201},
		"another key":                {order{key: []string{`"K"`}}, 201},
		"another path, one resource": {order{path: "/accounts/42/more"}, 201},
		"another resource":           {order{path: "/accounts/43"}, 201},
		"another method":             {order{method: "PUT"}, 201},
		"a body":                     {order{body: "2"}, 422},
		"a query":                    {order{query: "?a=1"}, 422},
		"a type":                     {order{kind: "text/plain"}, 422},
		"a spelling of the path":     {order{}, 422},
		"a host":                     {order{host: "tenant.example"}, 422},
		"an encoding":                {content("Content-Encoding"), 422},
		"a location":                 {content("Content-Location"), 422},
		"a range":                    {content("Content-Range"), 422},
		"a disposition":              {content("Content-Disposition"), 422},
		"a language":                 {order{fields: http.Header{"Content-Language": {"de"}}}, 422},
		"lines, combined":            {order{fields: http.Header{"Content-Language": {"de, en"}}}, 200},
		"a host in upper case":       {order{host: "LOCALHOST"}, 200},
		"a length that is not known": {order{chunked: true}, 200},
		"a field of the attempt":     {order{fields: http.Header{"User-Agent": {"x"}}}, 200},
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
			if name == "a spelling of the path" {
				req.URL.RawPath = "/accounts/%342"
			}
			got := s.send(s.Client(), req)
			switch c.status {
			case http.StatusCreated:
				requirePayment(t, 2, got)
				require.EqualValues(t, 2, p.balance())
				return
			case http.StatusOK:
				requireReplayed(t, 1, got)
			default:
				requireProblem(t, c.status, httpguard.ProblemKeyReused, got)
			}
			require.EqualValues(t, 1, p.balance())
			requireReplayed(t, 1, s.place(first))
		})
	}
}

func TestUnitsDoNotDependOnWhereAPartEnds(t *testing.T) {
	t.Parallel()
	seen := map[guard.Unit]string{}
	for _, o := range []order{
		{caller: "ab", key: []string{"c"}}, {caller: "a", key: []string{"bc"}},
		{kind: "1", body: "23"}, {kind: "12", body: "3"}, {query: "?1", kind: "2", body: "3"},
	} {
		var unit guard.Unit
		handler := httpguard.Idempotency{Service: "payments", Caller: callerOf}.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			unit, _ = httpguard.UnitFromContext(r.Context())
		}))
		o = o.or()
		r := httptest.NewRequest(o.method, o.path+o.query, strings.NewReader(o.body))
		r.Header.Set("X-Caller", o.caller)
		r.Header.Set("Content-Type", o.kind)
		r.Header["Idempotency-Key"] = o.key
		handler.ServeHTTP(httptest.NewRecorder(), r)
		require.NoError(t, unit.Validate())
		require.Regexp(t, "^http/[0-9a-f]{64}$", unit.Key)
		require.NotContains(t, seen, unit)
		seen[unit] = fmt.Sprint(o)
	}
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
		"a bare list":         {order{key: []string{`k,l`}}, 400, httpguard.ProblemMalformed, "must be an Item"},
		"bare parameters":     {order{key: []string{`k;v=1`}}, 400, httpguard.ProblemMalformed, "must be a String"},
		"no end":              {order{key: []string{`"k`}}, 400, httpguard.ProblemMalformed, "must be an Item"},
		"an empty line":       {order{key: []string{""}}, 400, httpguard.ProblemMalformed, "must be an Item"},
		"an empty String":     {order{key: []string{`""`}}, 400, httpguard.ProblemMalformed, "at least one character"},
		"a Display String":    {order{key: []string{`%"k"`}}, 400, httpguard.ProblemMalformed, "must be a String"},
		"two words":           {order{key: []string{"k l"}}, 400, httpguard.ProblemMalformed, "must be an Item"},
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

func TestTheHandlerReadsTheBody(t *testing.T) {
	t.Parallel()
	s := serve(t, httpguard.Idempotency{Service: "payments", Caller: callerOf}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})), false)
	require.Equal(t, "text", s.place(order{body: "text"}).body)
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

func TestARepeatWhileTheFirstRuns(t *testing.T) {
	t.Parallel()
	p := newPayments(t)
	s, another := p.start(), p.start()
	inside, resume := make(chan struct{}, 2), make(chan struct{})
	p.during = func(context.Context, pgx.Tx) error {
		inside <- struct{}{}
		<-resume
		return nil
	}
	first := s.placed(order{})
	<-inside
	for _, o := range []order{{}, {number: 34}, {body: "2"}} {
		got := s.place(o)
		requireProblem(t, 409, httpguard.ProblemInProgress, got)
		require.Equal(t, "1", got.header.Get("Retry-After"))
	}
	second := s.placed(order{path: "/accounts/43"})
	<-inside // another unit runs beside it
	elsewhere := another.placed(order{})
	pgtest.AwaitLockWaiters(t, p.pool, p.schema, 1)
	close(resume)
	requirePayment(t, 1, <-first)
	requireReplayed(t, 1, <-elsewhere)
	requirePayment(t, 2, <-second)
	requireReplayed(t, 1, s.place(order{}))
	require.EqualValues(t, 2, p.balance())
}

// Each case ends the first try before it is committed: nothing is stored, and the repeat
// runs.
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
	requirePayment(t, 2, s.place(order{number: 34, key: []string{"next"}}))

	requireReplayed(t, 1, s.place(order{}))
	requireProblem(t, 412, httpguard.ProblemStale, s.place(order{key: []string{"late"}}))
	require.EqualValues(t, 2, p.balance(), "the write stays guarded")

	stored := p.serve(httpguard.Middleware{Resources: accounts, Store: p.fence}, httpguard.Idempotency{Service: "payments", Caller: callerOf})
	requireProblem(t, 412, httpguard.ProblemStale, stored.place(order{}))
	requireReplayed(t, 1, stored.place(order{number: 34}))
	require.EqualValues(t, 2, p.balance())
}
