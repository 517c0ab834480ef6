package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/token"
)

// Marks are in memory. Each worker has a resource of its own, whose mark is the worker's
// token. The middleware has its table of requests in flight.
func httpMeasurements() []measurement {
	httpSettings := []setting{linked1, linked16, direct1, direct16}
	return []measurement{
		contest{
			name: "HTTP request, ", settings: httpSettings,
			baseline: subject{name: "the handler alone", open: put("bare", false, latest, http.StatusNoContent)},
			others: []subject{
				{name: "httpguard", open: put("guarded", false, latest, http.StatusNoContent), targets: targets{overLink: {atMost(1.01)}}},
				{name: "httpguard, signed", open: put("signed", true, latest, http.StatusNoContent)},
			},
		},
		contest{
			name: "HTTP request, ", settings: alone,
			baseline: subject{name: "a handler that refuses", open: put("refusing", false, outdated, http.StatusPreconditionFailed)},
			others:   []subject{{name: "httpguard, refused", open: put("guarded", false, outdated, http.StatusPreconditionFailed)}},
		},
		contest{
			name: "HTTP middleware in memory, ", settings: []setting{direct1},
			baseline: subject{name: "a context value, and a copy of the request", open: called("carrying", false)},
			others: []subject{
				{name: "httpguard", open: called("guarded", false), targets: targets{allocations: {atMost(6)}}},
				{name: "httpguard, signed", open: called("signed", true)},
			},
		},
	}
}

// latest returns a token of the length that tokens from Redis have.
func latest(worker int) token.Token {
	return token.Token{Resource: resource(worker), Number: 179516977481431, Holder: holder}
}

// outdated returns the token before the latest.
func outdated(worker int) token.Token {
	tok := latest(worker)
	tok.Number--
	return tok
}

// handlers are wrappers of the handler that does the work: none, the guard, and the
// minimum that a middleware does.
type handlers struct {
	marks   guard.Memory
	keyring *signature.Keyring
	all     map[string]http.Handler
}

func newHandlers(ctx context.Context, work http.HandlerFunc) *handlers {
	h := &handlers{keyring: must(signature.New(signature.Key{ID: "2026-11", Secret: []byte("no secret, but as long as one is")}))}
	for worker := range mostWorkers {
		check(h.marks.Admit(ctx, latest(worker)))
	}
	wrap := func(keyring *signature.Keyring) http.Handler {
		return httpguard.Middleware{
			Resources: httpguard.Pattern("account/{id}"), Store: &h.marks, Keyring: keyring, InFlight: new(httpguard.InFlight),
		}.Wrap(work)
	}
	type key struct{}
	h.all = map[string]http.Handler{
		"bare": work, "guarded": wrap(nil), "signed": wrap(h.keyring),
		"carrying": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			work(w, r.WithContext(context.WithValue(r.Context(), key{}, w)))
		}),
		"refusing": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			httpguard.Error(w, r, &guard.StaleError{Token: token.Token{Resource: "account/42", Number: 1, Holder: "h"}})
		}),
	}
	return h
}

// fields returns the workers' Fencing-Token fields.
func (h *handlers) fields(isSigned bool, of func(worker int) token.Token) (all [mostWorkers]string) {
	for worker := range all {
		if isSigned {
			all[worker] = must(httpguard.FormatSigned(must(h.keyring.Sign(of(worker), time.Time{}))))
		} else {
			all[worker] = must(httpguard.Format(of(worker)))
		}
	}
	return all
}

// readBody is a handler without a guard: it reads the body and answers with success.
func readBody(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// put sends requests to the handler of that name over reused connections.
func put(name string, isSigned bool, of func(worker int) token.Token, status int) opener {
	return func(ctx context.Context, c *client) op {
		h := newHandlers(ctx, readBody)
		fields, addr := h.fields(isSigned, of), c.serve(h.all[name])
		transport := &http.Transport{DialContext: c.sent.dial, MaxIdleConnsPerHost: c.workers, MaxConnsPerHost: c.workers}
		c.closers = append(c.closers, transport.CloseIdleConnections)
		program, body := http.Client{Transport: transport}, []byte("100")
		return func(ctx context.Context, worker int) error {
			url := fmt.Sprintf("http://%s/accounts/%d", addr, account(worker))
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(body))
			if err != nil {
				return err
			}
			req.Header.Set(httpguard.Header, fields[worker])
			resp, err := program.Do(req)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, resp.Body)
			return errors.Join(err, resp.Body.Close(), answered(resp.StatusCode, status))
		}
	}
}

// serve serves the handler, and returns its URL for the client.
func (c *client) serve(handler http.Handler) string {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	mux := http.NewServeMux()
	mux.Handle("PUT /accounts/{id}", handler)
	server := http.Server{Handler: mux}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // returns an error when it is closed
	}()
	c.closers = append(c.closers, func() { _ = server.Close(); <-ended })
	addr := listener.Addr().String()
	if c.route == direct {
		return addr
	}
	r := startRelay(addr)
	c.closers = append(c.closers, r.close)
	return r.addr
}

func answered(status, want int) error {
	if status != want {
		return fmt.Errorf("status %d, want %d", status, want)
	}
	return nil
}

// answer is a ResponseWriter that discards the body.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(p []byte) (int, error) { return len(p), nil }
func (a *answer) WriteHeader(status int)      { a.status = status }

// called calls the handler of that name, around a handler that does nothing, with
// requests whose path has been matched.
func called(name string, isSigned bool) opener {
	return func(ctx context.Context, _ *client) op {
		h := newHandlers(ctx, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		a, id := &answer{header: http.Header{}}, fmt.Sprint(account(0))
		r := must(http.NewRequest(http.MethodPut, "/accounts/"+id, http.NoBody))
		r.Header.Set(httpguard.Header, h.fields(isSigned, latest)[0])
		r.SetPathValue("id", id)
		handler := h.all[name]
		return func(context.Context, int) error {
			a.status = 0
			handler.ServeHTTP(a, r)
			return answered(a.status, http.StatusNoContent)
		}
	}
}
