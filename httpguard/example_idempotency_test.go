package httpguard_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	_ "modernc.org/sqlite"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// service pays from accounts. Its database decides about the token and about the key.
type service struct{ fence *stdsql.Guard }

func (s *service) pay(w http.ResponseWriter, r *http.Request) {
	unit, _ := httpguard.UnitFromContext(r.Context())
	stored, err := s.fence.Once(r.Context(), "account/"+r.PathValue("id"), unit, func(tx *sql.Tx) ([]byte, error) {
		_, err := tx.ExecContext(r.Context(), "UPDATE accounts SET balance = balance - 10 WHERE id = ?", r.PathValue("id"))
		if err != nil {
			return nil, err
		}
		return httpguard.Answer{Status: http.StatusCreated, Body: []byte("paid 10")}.Encode(r.Context())
	})
	if err != nil {
		httpguard.Error(w, r, err)
		return
	}
	httpguard.WriteAnswer(w, r, stored)
}

// The response to a payment is lost, and the client repeats the request under its key,
// even though another holder has come since. The service pays once. The middleware
// compares no tokens, because Once does.
func ExampleIdempotency() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	_, err = db.Exec("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER); INSERT INTO accounts VALUES (42, 100)")
	if err = errors.Join(err, migrations.Set{Dialect: migrations.SQLite}.Up(ctx, db)); err != nil {
		fmt.Println(err)
		return
	}

	s := &service{fence: &stdsql.Guard{DB: db, Dialect: stdsql.SQLite}}
	tokens := httpguard.Middleware{Resources: httpguard.Pattern("account/{id}"), DangerouslySkipInFlight: true}
	keys := httpguard.Idempotency{
		Service: "accounts",
		Caller:  func(*http.Request) (string, error) { return "billing", nil }, // from the session
	}
	mux := http.NewServeMux()
	mux.Handle("POST /accounts/{id}/payments", tokens.Wrap(keys.Wrap(http.HandlerFunc(s.pay))))
	server := httptest.NewServer(loseFirst(mux))
	defer server.Close()

	client := &http.Client{Transport: httpguard.Transport{Hosts: []string{server.Listener.Addr().String()}}}
	defer client.CloseIdleConnections()
	work := httpguard.WithIdempotencyKey(ctx, rand.Text())
	pay := func(number int64) {
		ctx := token.NewContext(work, token.Token{Resource: "account/42", Number: number, Holder: "billing:1"})
		req, _ := http.NewRequestWithContext(ctx, "POST", server.URL+"/accounts/42/payments", nil)
		resp, err := client.Do(req)
		if err != nil {
			fmt.Println("unknown:", errors.Is(err, guard.ErrUnknown))
			return
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		fmt.Printf("%s, %s\n", resp.Status, text)
	}
	pay(33)
	pay(34) // a successor goes on with the work
	pay(33) // the paused holder repeats it too
	var balance int
	_ = db.QueryRow("SELECT balance FROM accounts WHERE id = 42").Scan(&balance)
	fmt.Println("balance:", balance)
	// Output:
	// unknown: true
	// 201 Created, paid 10
	// 201 Created, paid 10
	// balance: 90
}

// loseFirst drops the first response, after the handler has returned.
func loseFirst(next http.Handler) http.Handler {
	var lost atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !lost.Swap(true) {
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}
