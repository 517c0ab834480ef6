package httpguard_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/token"
)

// discard is a ResponseWriter that drops the body.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// kept forces a request to the heap.
var kept *http.Request

// BenchmarkMiddleware compares with the minimum work: the tokens' text is parsed, the
// context gets a value, and the request is copied to carry it.
func BenchmarkMiddleware(b *testing.B) {
	const text = `179516977481431;r="account/42";h="billing:4711:1:c2f1a9035be17d64"`
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { kept = r })
	one := tok("account/42", 179516977481431, "billing:4711:1:c2f1a9035be17d64")
	type key struct{}
	floor := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, &one)))
	})
	parsed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		toks, _ := httpguard.Parse(r.Header[httpguard.Header])
		next.ServeHTTP(w, r.WithContext(token.NewContext(r.Context(), toks[0])))
	})
	var marks guard.Memory
	whole := httpguard.Middleware{Resources: accounts, Store: &marks, InFlight: new(httpguard.InFlight)}
	signed := whole
	keyring, err := signature.New(signature.Key{ID: "2026-11", Secret: []byte("no secret, but as long as one is")})
	require.NoError(b, err)
	vouched, err := keyring.Sign(one, time.Time{})
	require.NoError(b, err)
	signedText, err := httpguard.FormatSigned(vouched)
	require.NoError(b, err)
	signed.Keyring = keyring
	for _, bench := range []struct {
		name, method, field string
		handler             http.Handler
	}{
		{"the handler alone", "PUT", text, next},
		{"a context value and a copy", "PUT", text, floor},
		{"the same, with the token parsed", "PUT", text, parsed},
		{"without a store", "PUT", text, httpguard.Middleware{Resources: accounts}.Wrap(next)},
		{"with Memory", "PUT", text, httpguard.Middleware{Resources: accounts, Store: &marks}.Wrap(next)},
		{"with Memory, and in flight", "PUT", text, whole.Wrap(next)},
		{"the same, signed", "PUT", signedText, signed.Wrap(next)},
		{"a read without a token", "GET", "", httpguard.Middleware{Resources: accounts, Store: &marks}.Wrap(next)},
		{"a refusal", "PUT", line("account/42", 1, "b"), httpguard.Middleware{Resources: accounts, Store: &marks}.Wrap(next)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			r := httptest.NewRequest(bench.method, "/accounts/42", nil)
			r.SetPathValue("id", "42")
			if bench.field != "" {
				r.Header.Set(httpguard.Header, bench.field)
			}
			w := discard{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				bench.handler.ServeHTTP(w, r)
			}
		})
	}
}
