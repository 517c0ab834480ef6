package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
)

// payer is a service that reads Idempotency-Key. Each unit adds 1 to the balance of
// account 42.
type payer struct {
	table   string
	fence   *sqlguard.Guard
	keyless bool // the twin: a repeat is another payment
	paid    chan []string
	resume  chan struct{} // one for each answer
}

func (p *payer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var stored []byte
	pay := func(tx pgx.Tx) (_ []byte, err error) {
		if _, err = tx.Exec(r.Context(), "UPDATE "+p.table+" SET balance = balance + 1 WHERE id = 42"); err != nil {
			return nil, err
		}
		stored, err = httpguard.Answer{Status: http.StatusCreated, Body: []byte("paid")}.Encode(r.Context())
		return stored, err
	}
	var err error
	if unit, _ := httpguard.UnitFromContext(r.Context()); p.keyless {
		err = p.fence.Update(r.Context(), "account/42", func(tx pgx.Tx) error {
			_, err := pay(tx)
			return err
		})
	} else {
		stored, err = p.fence.Once(r.Context(), "account/42", unit, pay)
	}
	p.paid <- r.Header["Idempotency-Key"]
	<-p.resume
	if err != nil {
		httpguard.Error(w, r, err)
		return
	}
	httpguard.WriteAnswer(w, r, stored)
}

// hazard W18
// The service has the schema of the proxies. A proxy is killed after the service has paid,
// and before the client has the answer. The client repeats the request through another
// proxy, and so does a successor.
func TestAServiceBehindProxiesAppliesAKeyedRequestOnce(t *testing.T) {
	t.Parallel()
	for name, twin := range map[string]bool{"Once in the service": false, "the twin": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, schema := testenv.Postgres(t)
			p := &payer{table: pgtest.Accounts(t, pool, schema, 42), fence: &sqlguard.Guard{DB: pool, Schema: schema, IdleTimeout: time.Hour},
				keyless: twin, paid: make(chan []string, 1), resume: make(chan struct{}, 1)}
			returned := make(chan struct{}, 1)
			keys := httpguard.Idempotency{Service: "payments", Caller: func(r *http.Request) (string, error) { return r.Header.Get("X-Caller"), nil }}.Wrap(p)
			service := httptest.NewServer(httpguard.Middleware{
				Resources: httpguard.Pattern("account/42"), DangerouslySkipInFlight: true,
			}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				keys.ServeHTTP(w, r)
				returned <- struct{}{}
			})))
			t.Cleanup(service.Close)
			flags := append(postgresFlags(t, schema), "--resource", "account/{id}")
			a, b := startProxy(t, service.URL, flags...), startProxy(t, service.URL, flags...)
			pay := func(at *proxied, number int64) <-chan reply {
				return async(t, "POST", at.url+"/account/42", "1", append(field(t, "account/42", number, "h"), "Idempotency-Key", `"k"`, "X-Caller", "a")...)
			}
			lost := pay(a, 33)
			require.Equal(t, []string{`"k"`}, next(t, p.paid), "the field is passed on as it was")
			require.NoError(t, a.cmd.Process.Kill())
			<-a.ended
			require.Zero(t, next(t, lost).status)
			p.resume <- struct{}{}
			next(t, returned)

			for _, number := range []int64{33, 34} {
				repeat := pay(b, number)
				next(t, p.paid)
				p.resume <- struct{}{}
				got := next(t, repeat)
				require.Equal(t, http.StatusCreated, got.status, got.body)
				require.Equal(t, "paid", got.body)
				next(t, returned)
			}
			stale := next(t, pay(b, 33))
			require.Equal(t, http.StatusPreconditionFailed, stale.status, "the proxy compares the token first")
			payments := 1
			if twin {
				payments = 3
			}
			require.EqualValues(t, 100+payments, pgtest.Query[int64](t, pool, "SELECT balance FROM "+p.table+" WHERE id = 42"))
		})
	}
}
