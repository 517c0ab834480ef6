package outbox_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/internal/bank"
	"github.com/fencepost/fencepost/examples/outbox"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

var unit = guard.Unit{Key: "payment/7", Fingerprint: "10"}

// provider makes payments. It honours keys unless it is a mail server.
type provider struct {
	*httptest.Server
	mail     bool
	status   int
	answered func() // called after the first effect, before its answer; nil: nothing

	mu   sync.Mutex
	made map[string]int // the effects of each key
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	p.mu.Lock()
	first := p.made[key] == 0
	if first || p.mail {
		p.made[key]++
	}
	p.mu.Unlock()
	if first && p.answered != nil {
		p.answered()
	}
	w.WriteHeader(p.status)
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made[`"payment/7"`]
}

func servers(t *testing.T) (*outbox.Outbox, *provider) {
	t.Helper()
	pool := bank.Pool(t, outbox.Schema+"; CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint); INSERT INTO accounts VALUES (42, 100)")
	p := &provider{status: http.StatusCreated, made: map[string]int{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	fence := &sqlguard.Guard{DB: pool, IdleTimeout: time.Hour}
	return &outbox.Outbox{DB: pool, Fence: fence, Client: p.Client(), URL: p.URL}, p
}

func holding(t *testing.T, resource string, number int64) context.Context {
	t.Helper()
	return token.NewContext(t.Context(), token.Token{Resource: resource, Number: number, Holder: fmt.Sprint("h", number)})
}

// pay records the payment, as two holders that repeat it.
func pay(t *testing.T, o *outbox.Outbox) {
	t.Helper()
	for _, number := range []int64{33, 34, 33} {
		require.NoError(t, o.Pay(holding(t, "account/42", number), 42, 10, unit))
	}
	require.EqualValues(t, 90, pgtest.Query[int64](t, o.DB, "SELECT balance FROM accounts"))
}

// rows returns the statuses of the outbox, as text.
func rows(t *testing.T, o *outbox.Outbox) string {
	t.Helper()
	return pgtest.Query[string](t, o.DB, "SELECT coalesce(string_agg(coalesce(status::text, 'open'), ' ' ORDER BY id), '') FROM outbox")
}

// The provider makes the payment, and its answer is lost. The twin is a mail server, which
// ignores the key: the mail is sent twice.
func TestALostAnswer(t *testing.T) {
	t.Parallel()
	for name, mail := range map[string]bool{"a payment": false, "the twin: a mail": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, p := servers(t)
			p.mail, p.answered = mail, func() { panic(http.ErrAbortHandler) }
			pay(t, o)
			worker := holding(t, outbox.Resource, 1)
			require.Error(t, o.Deliver(worker))
			require.Equal(t, "open", rows(t, o))
			require.NoError(t, o.Deliver(worker))
			require.NoError(t, o.Deliver(worker), "nothing is left to send")
			require.Equal(t, "201", rows(t, o))
			require.Equal(t, map[bool]int{false: 1, true: 2}[mail], p.count())
		})
	}
}

// A worker is paused before it gets the answer. Its successor sends the payment again.
func TestAPausedWorker(t *testing.T) {
	t.Parallel()
	o, p := servers(t)
	pay(t, o)
	var successor error
	p.answered = func() { successor = o.Deliver(holding(t, outbox.Resource, 2)) }
	require.ErrorIs(t, o.Deliver(holding(t, outbox.Resource, 1)), guard.ErrStale)
	require.NoError(t, successor)
	require.Equal(t, "201", rows(t, o))
	require.Equal(t, 1, p.count())
}

func TestWhatIsNotRecordedIsNotSent(t *testing.T) {
	t.Parallel()
	o, p := servers(t)
	require.ErrorIs(t, o.Pay(holding(t, "account/42", 33), 42, 101, unit), outbox.ErrFunds)
	pay(t, o)
	require.ErrorIs(t, o.Pay(holding(t, "account/42", 33), 42, 10, guard.Unit{Key: "payment/8"}), guard.ErrStale)
	require.Equal(t, "open", rows(t, o))
	require.NoError(t, o.Deliver(holding(t, outbox.Resource, 1)))
	require.Equal(t, 1, p.count())
}

func TestAnAnswerThatIsNoDecisionIsAskedForAgain(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{402: "402", 422: "422", 409: "open", 429: "open", 503: "open"} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			o, p := servers(t)
			p.status = status
			pay(t, o)
			require.Equal(t, want == "open", o.Deliver(holding(t, outbox.Resource, 1)) != nil)
			require.Equal(t, want, rows(t, o))
			require.Equal(t, 1, p.count())
		})
	}
}
