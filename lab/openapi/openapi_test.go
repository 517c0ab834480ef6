// Package openapi holds the OpenAPI document of the lock service against its handler, with a
// library for that. It is a module of its own, since the library needs many others.
package openapi

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/httptoken"
	"github.com/fencepost/fencepost/token/memtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// The bearer tokens are "all" and "read".
const rights = `
all  5ef5ef0364b6939c4ca61f34b393f7b368d1be8619647aaf83d5b395919ab629 acquire,read,break *
read 3316348dbadfb7b11c7c2ea235949419e23f9fa898ad2c198f999617912a9925 read job/
`

// bare is an issuer without a queue, which cannot be inspected.
type bare struct{ token.Issuer }

// row is a request, and the status of its reply. The document allows the request, unless it is
// wrong.
type row struct {
	service, method, path, body string
	bearer                      string // "all" if it is empty
	status                      int
	wrong                       bool
}

func TestTheHandlerIsWhatTheDocumentSays(t *testing.T) {
	t.Parallel()
	locks := new(memtoken.Issuer)
	_, err := locks.Acquire(t.Context(), "job/held", "other", time.Hour)
	require.NoError(t, err)
	down := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	ring := redis.NewRing(&redis.RingOptions{})
	t.Cleanup(func() { require.NoError(t, down.Close()); require.NoError(t, ring.Close()) })
	services := map[string]*httptoken.Handler{
		"":        {Issuer: locks, Guards: map[string]guard.Store{"memory": new(guard.Memory)}},
		"open":    {Issuer: locks},
		"full":    {Issuer: locks, MaxWaiters: 1},
		"bare":    {Issuer: bare{locks}},
		"down":    {Issuer: &redistoken.Issuer{Client: down}},
		"refused": {Issuer: &redistoken.Issuer{Client: ring}},
	}
	servers := map[string]*httptest.Server{}
	for name, h := range services {
		h.Rights = new(httptoken.Rights)
		require.NoError(t, h.Rights.Replace(rights))
		servers[name] = httptest.NewServer(h)
		t.Cleanup(servers[name].Close)
	}
	v, document := describe(t, servers[""].URL)

	occupied := make(chan struct{})
	go func() { // the one place of "full"
		defer close(occupied)
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, servers["full"].URL+"/v1/locks/job%2Fheld", strings.NewReader(`{"holder":"w","ttl_ms":1000,"wait_ms":50000}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer all")
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	require.Eventually(t, func() bool {
		s, err := locks.Inspect(t.Context(), "job/held")
		return err == nil && len(s.Waiters) == 1
	}, time.Minute, time.Millisecond)

	const (
		try    = `{"holder":"web-1","request":"r1","ttl_ms":600000}`
		proof  = `{"holder":"web-1","request":"r1"}`
		ttl    = `{"holder":"web-1","request":"r1","ttl_ms":600000}`
		breaks = `{"holder":"other","reason":"hangs"}`
	)
	seen := map[string]bool{}
	for n, r := range []row{
		{method: "PUT", path: "/v1/locks/job%2F1", body: try, status: 200},
		{method: "PUT", path: "/v1/locks/job%2F1", body: `{"holder":"web-2","ttl_ms":1000,"wait_ms":1}`, status: 409},
		{method: "PUT", path: "/v1/locks/job%2F1", body: `{"ttl_ms":1000}`, status: 400, wrong: true},
		{method: "PUT", path: "/v1/locks/job%2F1", body: `{"holder":"a","ttl_ms":0}`, status: 400, wrong: true},
		{method: "PUT", path: "/v1/locks/job%2F1", body: `{"holder":"a","ttl_ms":86400001}`, status: 400, wrong: true},
		{method: "PUT", path: "/v1/locks/job%2F1", body: `{"holder":"a","ttl_ms":1,"wait_ms":50001}`, status: 400, wrong: true},
		{method: "PUT", path: "/v1/locks/job%2F1", body: `{"holder":"a","ttl_ms":"1"}`, status: 400, wrong: true},
		{method: "PUT", path: "/v1/locks/job%2F1", body: `{"holder":"a","ttl_ms":1,"x":1}`, status: 400, wrong: true},
		{method: "PUT", path: "/v1/locks/job%2F1", body: `{"holder":"` + strings.Repeat("h", 171) + `","ttl_ms":1}`, status: 400, wrong: true},
		{method: "PUT", path: "/v1/locks/job%2F1", body: try, bearer: "no", status: 401},
		{method: "PUT", path: "/v1/locks/job%2F1", body: try, bearer: "read", status: 403},
		{method: "PUT", path: "/v1/locks/job%2F1", body: strings.Repeat(" ", 5000) + try, status: 413},
		{method: "PUT", path: "/v1/locks/job%2F1", body: "text", status: 415, wrong: true},
		{service: "full", method: "PUT", path: "/v1/locks/job%2Fheld", body: `{"holder":"a","ttl_ms":1000,"wait_ms":1000}`, status: 429},
		{service: "refused", method: "PUT", path: "/v1/locks/job%2F1", body: try, status: 500},
		{service: "down", method: "PUT", path: "/v1/locks/job%2F1", body: try, status: 503},
		{method: "POST", path: "/v1/locks/job%2F1/renew", body: ttl, status: 200},
		{method: "POST", path: "/v1/locks/job%2F1/renew", body: `{"holder":"web-1","request":"r2","ttl_ms":1}`, status: 410},
		{method: "POST", path: "/v1/locks/job%2F1/renew", body: proof, status: 400, wrong: true},
		{method: "GET", path: "/v1/locks/job%2F1", status: 200},
		{method: "GET", path: "/v1/locks/job%2F1", bearer: "read", status: 200},
		{method: "GET", path: "/v1/locks/job%2Fnever", status: 404},
		{service: "bare", method: "GET", path: "/v1/locks/job%2F1", status: 501},
		{service: "down", method: "GET", path: "/v1/locks/job%2F1", status: 503},
		{method: "GET", path: "/v1/locks?prefix=job/&limit=1", status: 200},
		{method: "GET", path: "/v1/locks?prefix=job/&limit=0", status: 400, wrong: true},
		{method: "GET", path: "/v1/locks?prefix=x/", bearer: "read", status: 403},
		{service: "bare", method: "GET", path: "/v1/locks", status: 501},
		{service: "down", method: "GET", path: "/v1/locks", status: 503},
		{method: "DELETE", path: "/v1/locks/job%2F1", body: proof, status: 204},
		{method: "DELETE", path: "/v1/locks/job%2F1", body: proof, status: 410},
		{method: "DELETE", path: "/v1/locks/job%2F1", status: 400},
		{service: "open", method: "POST", path: "/v1/locks/job%2Fheld/break", body: breaks, status: 412},
		{service: "bare", method: "POST", path: "/v1/locks/job%2Fheld/break", body: breaks, status: 501},
		{method: "POST", path: "/v1/locks/job%2Fheld/break", body: `{"holder":"web-9","reason":"hangs"}`, status: 409},
		{method: "POST", path: "/v1/locks/job%2Fheld/break", body: `{"holder":"other"}`, status: 400, wrong: true},
		{method: "POST", path: "/v1/locks/job%2Fheld/break", body: breaks, status: 200},
		{method: "GET", path: "/openapi.json", bearer: "no", status: 200},
	} {
		t.Run(fmt.Sprintf("%d %s %s %s is %d", n, r.service, r.method, r.path, r.status), func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), r.method, servers[r.service].URL+r.path, strings.NewReader(r.body))
			require.NoError(t, err)
			switch {
			case r.body == "text":
				req.Header.Set("Content-Type", "text/plain")
			case r.body != "":
				req.Header.Set("Content-Type", "application/json")
			}
			req.Header.Set("Authorization", "Bearer "+cmp.Or(r.bearer, "all"))
			copied := req.Clone(t.Context())
			copied.Body = io.NopCloser(strings.NewReader(r.body))
			if r.body == "" {
				copied.Body = nil
			}
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, r.status, resp.StatusCode, "%s", text)
			resp.Body = io.NopCloser(bytes.NewReader(text))

			allowed, faults := v.ValidateHttpRequest(copied)
			require.Equal(t, !r.wrong, allowed, "the request: %v", faults)
			described, faults := v.ValidateHttpResponse(copied, resp)
			require.True(t, described, "the reply %s: %v", text, faults)
			path := strings.Replace(copied.URL.EscapedPath(), "job%2F1", "{name}", 1)
			path = strings.NewReplacer("job%2Fheld", "{name}", "job%2Fnever", "{name}").Replace(path)
			seen[fmt.Sprintf("%s %s %d", r.method, path, r.status)] = true
		})
	}
	<-occupied // the break has freed the lock

	for _, reply := range document {
		status := reply[len(reply)-3:]
		if !slices.Contains([]string{"401", "403", "413", "415", "500", "503", "400"}, status) { // of all operations: once is enough
			require.Contains(t, seen, reply, "no request forces this reply of the document")
		}
	}
	require.Subset(t, document, slices.Collect(maps.Keys(seen)))
}

// describe returns a validator for the document that the service has, and the replies in it.
func describe(t *testing.T, url string) (v validator.Validator, replies []string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/openapi.json", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	document, err := libopenapi.NewDocument(text)
	require.NoError(t, err)
	v, faults := validator.NewValidator(document)
	require.Empty(t, faults)
	valid, violations := v.ValidateDocument()
	require.True(t, valid, "%v", violations)
	model, err := document.BuildV3Model()
	require.NoError(t, err)
	for path, item := range model.Model.Paths.PathItems.FromOldest() {
		for method, operation := range item.GetOperations().FromOldest() {
			for status := range operation.Responses.Codes.FromOldest() {
				replies = append(replies, strings.ToUpper(method)+" "+path+" "+status)
			}
		}
	}
	return v, replies
}
