package httpguard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// account is a resource that checks tokens itself: it stores the mark beside the balance,
// and updates both under one mutex. In SQL, sqlguard does this.
type account struct {
	mu      sync.Mutex
	mark    guard.Mark
	balance string
}

func (a *account) write(ctx context.Context, balance string) error {
	tok, err := token.FromContext(ctx, "account/42")
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.mark.Admits(tok); err != nil {
		return err
	}
	a.mark, a.balance = guard.Mark{Number: tok.Number, Holder: tok.Holder}, balance
	return nil
}

// A service guards an account. A client writes to it while it holds the account's lock,
// then without a token, then with an old token.
func Example() {
	acc := &account{}
	withdrawals := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := acc.write(r.Context(), "100"); err != nil {
			httpguard.Error(w, r, err)
		}
	})
	mux := http.NewServeMux()
	guarded := httpguard.Middleware{Resources: httpguard.Pattern("account/{id}")}
	mux.Handle("PUT /accounts/{id}", guarded.Wrap(withdrawals))
	service := httptest.NewServer(mux)
	defer service.Close()

	client := &http.Client{Transport: httpguard.Transport{Hosts: []string{service.Listener.Addr().String()}}}
	defer client.CloseIdleConnections()
	put := func(ctx context.Context) {
		req, _ := http.NewRequestWithContext(ctx, "PUT", service.URL+"/accounts/42", nil)
		resp, err := client.Do(req)
		if err != nil {
			fmt.Println("stale:", errors.Is(err, guard.ErrStale))
			return
		}
		defer resp.Body.Close()
		fmt.Println(resp.Status)
	}

	locker := lock.Locker{Issuer: &memtoken.Issuer{}, Name: "billing", DangerouslyWithoutClaim: true}
	err := locker.Hold(context.Background(), "account/42", func(ctx context.Context) error {
		put(ctx)
		return nil
	})
	fmt.Println(err)
	put(context.Background())
	put(token.NewContext(context.Background(), token.Token{Resource: "account/42", Number: 33, Holder: "billing:1"}))
	// Output:
	// 200 OK
	// <nil>
	// 428 Precondition Required
	// stale: true
}

// This is the handler of the example "Incorrect", corrected: the write compares the token
// with the mark in the same step. The middleware needs no store. Its InFlight does not
// help here, because the service has two replicas.
func ExampleMiddleware() {
	acc := &account{balance: "0"}
	looked, resume := make(chan struct{}), make(chan struct{})
	guarded := httpguard.Middleware{Resources: httpguard.Pattern("account/{id}")}
	replica := func() *httptest.Server {
		mux := http.NewServeMux()
		mux.Handle("PUT /accounts/{id}/{balance}", guarded.Wrap(http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				balance := r.PathValue("balance")
				if balance == "100" {
					close(looked)
					<-resume // a collection, a stopped machine, a slow disk
				}
				if err := acc.write(r.Context(), balance); err != nil {
					httpguard.Error(w, r, err)
				}
			})))
		return httptest.NewServer(mux)
	}
	one, two := replica(), replica()
	defer one.Close()
	defer two.Close()

	older := make(chan string)
	go func() { older <- put(one, "100", `33;r="account/42";h="a"`) }()
	<-looked
	fmt.Println("newer:", put(two, "250", `34;r="account/42";h="b"`))
	close(resume)
	fmt.Println("older:", <-older)
	fmt.Println("balance:", acc.balance)
	// Output:
	// newer: 200 OK
	// older: 412 Precondition Failed
	// balance: 250
}

// In one process, the newer request waits until the older one has left its handler. The
// older request's context is cancelled, and its cause names the reason.
func ExampleInFlight() {
	looked := make(chan struct{})
	guarded := httpguard.Middleware{Resources: httpguard.Pattern("account/{id}"), Store: &guard.Memory{}}
	mux := http.NewServeMux()
	mux.Handle("PUT /accounts/{id}/{balance}", guarded.Wrap(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if r.PathValue("balance") == "100" {
				close(looked)
				<-r.Context().Done() // as in any call that takes the context
				fmt.Println("cause:", context.Cause(r.Context()))
				httpguard.Error(w, r, guard.WithCause(r.Context(), r.Context().Err())) // nothing was written
			}
		})))
	service := httptest.NewServer(mux)
	defer service.Close()

	older := make(chan string)
	go func() { older <- put(service, "100", `33;r="account/42";h="a"`) }()
	<-looked
	fmt.Println("newer:", put(service, "250", `34;r="account/42";h="b"`))
	fmt.Println("older:", <-older)
	// Output:
	// cause: guard: a newer token than account/42#33 has arrived
	// newer: 200 OK
	// older: 412 Precondition Failed
}

// put sends a write of balance to account 42 with the field, and returns the status.
func put(service *httptest.Server, balance, field string) string {
	req, err := http.NewRequest("PUT", service.URL+"/accounts/42/"+balance, nil)
	if err != nil {
		return err.Error()
	}
	req.Header.Set(httpguard.Header, field)
	resp, err := service.Client().Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	return resp.Status
}

func ExamplePattern() {
	guarded := httpguard.Middleware{Resources: httpguard.Pattern("account/{from}", "account/{to}")}
	mux := http.NewServeMux()
	mux.Handle("POST /transfers/{from}/{to}", guarded.Wrap(http.NotFoundHandler()))

	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/transfers/42/7", nil)
	r.Header.Set(httpguard.Header, `33;r="account/42";h="a"`)
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Body)
	// Output:
	// 428 {"type":"https://pkg.go.dev/github.com/fencepost/fencepost/httpguard#ProblemMissing","title":"Token required","status":428,"detail":"The request needs a token of the resource, in the field Fencing-Token. Nothing was applied.","resource":"account/7"}
}

func ExampleError() {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("PUT", "/accounts/42", nil)
	httpguard.Error(w, r, &guard.StaleError{
		Token: token.Token{Resource: "account/42", Number: 33, Holder: "a"},
		Mark:  guard.Mark{Number: 34, Holder: "b"},
	})
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	fmt.Println(strings.Contains(w.Body.String(), "34"))
	// Output:
	// 412 application/problem+json
	// false
}

func ExampleParse() {
	toks, err := httpguard.Parse([]string{
		`179516977481431;r="account/42";h="billing:7:1:c2f1"`,
		`12;r="job/nightly";h="billing:7:2:90ab"`,
	})
	fmt.Println(toks, err)

	_, err = httpguard.Parse([]string{`33;r="account/42"`})
	fmt.Println(err)
	// Output:
	// [account/42#179516977481431 job/nightly#12] <nil>
	// httpguard: Fencing-Token: member 1: must have the parameter h
}
