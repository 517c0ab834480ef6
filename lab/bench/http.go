package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/token"
)

// The server is in the process of its client, so its CPU time is not measured. Marks are in
// memory. Each worker has a resource of its own, whose mark is the worker's token. The
// middleware has its table of requests in flight.
var httpContests = []contest{{
	name: "HTTP request", settings: []setting{linked1, linked16, {1, 1, direct, usual, []column{packets, allocations}}},
	baseline: contender{"the handler alone", each(put(false, false))},
	others: []contender{
		{"httpguard", each(put(true, false))},
		{"httpguard, signed", each(put(true, true))},
	},
}}

// put sends requests over reused connections to a handler that has a guard or not, and
// whose tokens are signed or not.
func put(guards, signs bool) setup {
	return func(ctx context.Context, c *client) op {
		var marks guard.Memory
		var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusNoContent)
		})
		middleware := httpguard.Middleware{Resources: httpguard.Pattern("account/{id}"), Store: &marks, InFlight: new(httpguard.InFlight)}
		keyring := must(signature.New(signature.Key{ID: "2026-11", Secret: []byte("no secret, but as long as one is")}))
		if signs {
			middleware.Keyring = keyring
		}
		if guards {
			handler = middleware.Wrap(handler)
		}
		fields := make([]string, c.workers)
		for worker := range fields {
			// A number of the length that tokens from Redis have.
			tok := token.Token{Resource: resource(worker), Number: 179516977481431, Holder: newHolder()}
			check(marks.Admit(ctx, tok))
			fields[worker] = must(httpguard.Format(tok))
			if signs {
				fields[worker] = must(httpguard.FormatSigned(must(keyring.Sign(tok, time.Time{}))))
			}
		}
		mux := http.NewServeMux()
		mux.Handle("PUT /accounts/{id}", handler)
		server := httptest.NewServer(mux)
		c.later(func() error { server.Close(); return nil })
		base, body := c.routed(server.URL), []byte("100")
		transport := &http.Transport{DialContext: c.dial, MaxIdleConnsPerHost: c.workers, MaxConnsPerHost: c.workers}
		c.later(func() error { transport.CloseIdleConnections(); return nil })
		return func(ctx context.Context, worker int) error {
			url := fmt.Sprintf("%s/accounts/%d", base, account(worker))
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(body))
			if err != nil {
				return err
			}
			req.Header.Set(httpguard.Header, fields[worker])
			resp, err := (&http.Client{Transport: transport}).Do(req)
			if err != nil {
				return err
			}
			if resp.StatusCode != http.StatusNoContent {
				err = fmt.Errorf("status %d", resp.StatusCode)
			}
			return errors.Join(err, resp.Body.Close())
		}
	}
}
