package httpguard_test

import (
	"bytes"
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

func key(id string) signature.Key { return signature.Key{ID: id, Secret: bytes.Repeat([]byte(id), 32)} }

func keyring(t *testing.T, ids ...string) *signature.Keyring {
	t.Helper()
	var keys []signature.Key
	for _, id := range ids {
		keys = append(keys, key(id))
	}
	r, err := signature.New(keys...)
	require.NoError(t, err)
	return r
}

// signedField returns a field with one token that r has signed.
func signedField(t *testing.T, r *signature.Keyring, tok token.Token, until time.Time) string {
	t.Helper()
	s, err := r.Sign(tok, until)
	require.NoError(t, err)
	text, err := httpguard.FormatSigned(s)
	require.NoError(t, err)
	return text
}

const huge = 999_999_999_999_999

func TestAForgedNumber(t *testing.T) {
	t.Parallel()
	// hazard W2
	issuer := keyring(t, "b", "a")
	forged := line("account/42", huge, "mallory")
	good := signedField(t, issuer, tok("account/42", 34, "b"), time.Time{})

	// Without keys the forger's number is the highest.
	open := serve(t, (&bank{}).mux(httpguard.Middleware{Resources: accounts, Store: at(t)}), false)
	require.Equal(t, http.StatusNoContent, open.do("PUT", "/accounts/42", forged).status)
	require.Equal(t, http.StatusPreconditionFailed, open.do("PUT", "/accounts/42", good).status, "locked out for ever")

	b, marks := &bank{}, at(t)
	m := httpguard.Middleware{Resources: accounts, Store: marks, InFlight: &httpguard.InFlight{}, Keyring: keyring(t, "b", "c")}
	s := serve(t, b.mux(m), false)
	other, err := signature.New(signature.Key{ID: "b", Secret: bytes.Repeat([]byte("x"), 32)})
	require.NoError(t, err)
	for name, field := range map[string]string{ // the vectors have more
		"not signed":                   forged,
		"with a key of one's own":      signedField(t, other, tok("account/42", huge, "mallory"), time.Time{}),
		"with a key that is not known": signedField(t, keyring(t, "d"), tok("account/42", huge, "mallory"), time.Time{}),
		"a signature that has expired": signedField(t, issuer, tok("account/42", 34, "b"), time.Unix(1, 0)),
		"an expiry put off":            signedField(t, issuer, tok("account/42", 34, "b"), time.Unix(1, 0)) + ";x=99999999999",
	} {
		for _, method := range []string{"PUT", "GET"} {
			got := s.do(method, "/accounts/42", field)
			require.Equal(t, http.StatusForbidden, got.status, "%s %s", method, name)
			require.Equal(t, httpguard.ProblemBadSignature, got.problem(t)["type"])
			require.NotContains(t, got.body, "34")
		}
	}
	require.Empty(t, b.written())
	require.EqualValues(t, 33, marks.Mark("account/42").Number)
	require.Equal(t, http.StatusNoContent, s.do("PUT", "/accounts/42", good).status)
	require.Equal(t, http.StatusNoContent, s.do("PUT", "/accounts/42", good, forgedOther).status, "others' tokens are passed over")
}

const forgedOther = `999999999999999;r="account/7";h="mallory"`

func TestAForgerDoesNotDisturbInFlight(t *testing.T) {
	t.Parallel()
	issuer := keyring(t, "a")
	o := open(t, false, func(m *httpguard.Middleware) { m.Keyring = issuer })
	good := signedField(t, issuer, tok("account/42", 34, "a"), time.Time{})
	reply := make(chan int, 1)
	go func() { reply <- o.try("/accounts/42", good) }()
	working := o.expect(t, 34)
	require.Equal(t, http.StatusForbidden, o.do("PUT", "/accounts/42", line("account/42", huge, "mallory")).status)
	require.NoError(t, working.r.Context().Err())
	working.leave()
	require.Equal(t, http.StatusNoContent, <-reply)
}

// leased returns a lease, which the test's end releases.
func leased(t *testing.T) *lock.Lease {
	t.Helper()
	lease, err := (&lock.Locker{Issuer: &memtoken.Issuer{}, Name: "test", DangerouslyWithoutClaim: true}).Acquire(t.Context(), "account/42")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, lease.Release(context.Background())) })
	return lease
}

func TestKeysAreChangedWhileTheServiceRuns(t *testing.T) {
	t.Parallel()
	guarding := keyring(t, "old")
	s := serve(t, (&bank{}).mux(httpguard.Middleware{Resources: accounts, Store: &guard.Memory{}, Keyring: guarding}), false)
	field := signedField(t, keyring(t, "new"), tok("account/42", 34, "a"), time.Time{})
	require.Equal(t, http.StatusForbidden, s.do("PUT", "/accounts/42", field).status)
	require.NoError(t, guarding.Replace(key("old"), key("new")))
	require.Equal(t, http.StatusNoContent, s.do("PUT", "/accounts/42", field).status)
	require.NoError(t, guarding.Replace(key("old")))
	require.Equal(t, http.StatusForbidden, s.do("PUT", "/accounts/42", field).status)
}

// A service without a key forwards signed tokens unchanged to a service with keys. Its
// own tokens are signed only with its own key.
func TestTransportSigns(t *testing.T) {
	t.Parallel()
	issuer := keyring(t, "a")
	sent := func(ctx context.Context, transport httpguard.Transport) string {
		var field string
		transport.Hosts = []string{"api.example"}
		transport.Base = tripFunc(func(req *http.Request) (*http.Response, error) {
			field = req.Header.Get(httpguard.Header)
			return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
		})
		_, err := transport.RoundTrip(request(t, ctx, "http://api.example"))
		require.NoError(t, err)
		return field
	}
	through := func(field string) (ctx context.Context) {
		r := request(t, t.Context(), "http://x")
		r.Header.Set(httpguard.Header, field)
		httpguard.Middleware{Resources: func(*http.Request) ([]string, error) { return []string{"account/42"}, nil }}.Wrap(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ctx = r.Context() })).ServeHTTP(discard{http.Header{}}, r)
		return context.WithoutCancel(ctx)
	}
	good := signedField(t, issuer, tok("account/42", 34, "b"), time.Time{})
	forged := line("account/42", huge, "mallory")
	require.Equal(t, good, sent(through(good), httpguard.Transport{}), "no key, no matter")
	require.Equal(t, good, sent(through(good), httpguard.Transport{Keyring: keyring(t, "b")}), "it keeps its signature")
	require.Equal(t, forged, sent(through(forged), httpguard.Transport{Keyring: issuer}), "the transport does not sign it")
	moved := token.NewContext(t.Context(), token.All(through(forged))[0])
	require.Equal(t, forged, sent(moved, httpguard.Transport{Keyring: issuer}), "nor where it was moved to another context")
	_, err := httpguard.Transport{Hosts: []string{"api.example"}, Keyring: issuer, SignatureTTL: -1}.RoundTrip(request(t, leased(t).Context(), "http://api.example"))
	require.ErrorContains(t, err, "SignatureTTL", "which would be for ever")

	for _, life := range []time.Duration{0, time.Hour} {
		field := sent(leased(t).Context(), httpguard.Transport{Keyring: issuer, SignatureTTL: life})
		all, err := httpguard.ParseSigned([]string{field})
		require.NoError(t, err)
		require.NoError(t, issuer.Verify(all[0]))
		require.Equal(t, life != 0, all[0].Until != 0)
	}
}
