package httpguard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// untilAnswered repeats a request under one key after any error and any response but 201,
// as the contract allows, and returns the answer and the errors before it.
func untilAnswered(ctx context.Context, t *testing.T, s site) (answer string, before []error) {
	t.Helper()
	client := &http.Client{Transport: httpguard.Transport{Base: s.Client().Transport, Hosts: []string{s.Listener.Addr().String()}}}
	for range 10 {
		req := s.request(ctx, "POST", "/accounts/42", strings.NewReader("1"))
		req.Header.Set("X-Caller", "a")
		resp, err := client.Do(req)
		if err != nil {
			before = append(before, err)
			continue
		}
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		if resp.StatusCode == http.StatusCreated {
			return string(body), before
		}
		before = append(before, errors.New(resp.Status))
	}
	require.Fail(t, "no answer", "%v", before)
	return "", nil
}

// Each case loses one step of the first tries. The caller repeats the request, also after
// its token has become stale, and the effect happens once.
func TestALoopUnderOneKeyHasOneEffect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose    func(p *payments)
		before  string // a text of the first error
		unknown bool
		answer  string
	}{
		"the response": {func(p *payments) {
			p.reply = once(func(http.ResponseWriter, []byte) bool { panic(http.ErrAbortHandler) })
		}, "EOF", true, "payment 1"},
		"the response, and the lock after it": {func(p *payments) {
			p.reply = once(func(http.ResponseWriter, []byte) bool {
				p.newer()
				panic(http.ErrAbortHandler)
			})
		}, "EOF", true, "payment 1"},
		"the transaction": {func(p *payments) {
			p.during = firstTime(endSession)
		}, "503", false, "payment 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPayments(t)
			c.lose(p)
			ctx := httpguard.WithIdempotencyKey(token.NewContext(t.Context(), tok("account/42", 33, "h33")), "k")
			answer, before := untilAnswered(ctx, t, p.start())
			require.Len(t, before, 1)
			require.ErrorContains(t, before[0], c.before)
			require.Equal(t, c.unknown, errors.Is(before[0], guard.ErrUnknown))
			require.Equal(t, c.answer, answer)
			require.EqualValues(t, 1, p.balance())
		})
	}
}

// newer raises the mark of account 42 to 34.
func (p *payments) newer() {
	if err := p.fence.Admit(context.Background(), tok("account/42", 34, "h34")); err != nil {
		p.t.Error(err)
	}
}

// once calls lose at the first response, and sends the others.
func once(lose func(http.ResponseWriter, []byte) bool) func(http.ResponseWriter, []byte) bool {
	var lost atomic.Bool
	return func(w http.ResponseWriter, stored []byte) bool { return lost.Swap(true) || lose(w, stored) }
}

func firstTime(do func(context.Context, pgx.Tx) error) func(context.Context, pgx.Tx) error {
	var done atomic.Bool
	return func(ctx context.Context, tx pgx.Tx) error {
		if done.Swap(true) {
			return nil
		}
		return do(ctx, tx)
	}
}

// hazard W17
// Two callers, or two services on one schema, choose one key. The twins do not scope it:
// the second one gets the first one's answer, and its payment is not made.
func TestKeysBelongToTheirCallersAndServices(t *testing.T) {
	t.Parallel()
	anyone := func(*http.Request) (string, error) { return "any", nil }
	for name, c := range map[string]struct {
		second        string // the caller
		first, others httpguard.Idempotency
		payments      int
	}{
		"callers":            {"b", httpguard.Idempotency{Service: "pay", Caller: callerOf}, httpguard.Idempotency{Service: "pay", Caller: callerOf}, 2},
		"callers, the twin":  {"b", httpguard.Idempotency{Service: "pay", Caller: anyone}, httpguard.Idempotency{Service: "pay", Caller: anyone}, 1},
		"services":           {"a", httpguard.Idempotency{Service: "pay", Caller: callerOf}, httpguard.Idempotency{Service: "bill", Caller: callerOf}, 2},
		"services, the twin": {"a", httpguard.Idempotency{Service: "any", Caller: callerOf}, httpguard.Idempotency{Service: "any", Caller: callerOf}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPayments(t)
			requirePayment(t, 1, p.serve(routed, c.first).place(order{caller: "a"}))
			requireAnswer(t, c.payments, p.serve(routed, c.others).place(order{caller: c.second}))
			require.EqualValues(t, c.payments, p.balance())
		})
	}
}
