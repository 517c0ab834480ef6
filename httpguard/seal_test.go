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
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
	"github.com/fencepost/fencepost/token/seal"
)

func key(id string) seal.Key { return seal.Key{ID: id, Secret: bytes.Repeat([]byte(id), 32)} }

func ring(t *testing.T, ids ...string) *seal.Ring {
	t.Helper()
	var keys []seal.Key
	for _, id := range ids {
		keys = append(keys, key(id))
	}
	r, err := seal.New(keys...)
	require.NoError(t, err)
	return r
}

// sealedField is a field with one token that r has sealed.
func sealedField(t *testing.T, r *seal.Ring, tok token.Token, until time.Time) string {
	t.Helper()
	s, err := r.Seal(tok, until)
	require.NoError(t, err)
	text, err := httpguard.FormatSealed(s)
	require.NoError(t, err)
	return text
}

const huge = 999_999_999_999_999

func TestAForgedNumber(t *testing.T) {
	t.Parallel()
	// hazard W2
	issuer := ring(t, "b", "a")
	forged := line("account/42", huge, "mallory")
	good := sealedField(t, issuer, tok("account/42", 34, "b"), time.Time{})

	// Without keys the forger is the highest there ever was.
	open := serve(t, (&bank{}).mux(httpguard.Middleware{Resources: accounts, Store: at(t)}), false)
	require.Equal(t, http.StatusNoContent, open.do("PUT", "/accounts/42", forged).status)
	require.Equal(t, http.StatusPreconditionFailed, open.do("PUT", "/accounts/42", good).status, "locked out for ever")

	b, marks := &bank{}, at(t)
	m := httpguard.Middleware{Resources: accounts, Store: marks, Window: &httpguard.Window{}, Seals: ring(t, "b", "c")}
	s := serve(t, b.mux(m), false)
	other, err := seal.New(seal.Key{ID: "b", Secret: bytes.Repeat([]byte("x"), 32)})
	require.NoError(t, err)
	for name, field := range map[string]string{
		"not sealed":                     forged,
		"the number changed":             "999999999999999" + good[len("34"):],
		"sealed for another resource":    sealedField(t, issuer, tok("account/7", 35, "b"), time.Time{}) + `;r="account/42"`,
		"sealed for another holder":      good + `;h="mallory"`,
		"the seal cut short":             good + `;s=:AAAA:`,
		"with a key of one's own":        sealedField(t, other, tok("account/42", huge, "mallory"), time.Time{}),
		"with a key that is not known":   sealedField(t, ring(t, "d"), tok("account/42", huge, "mallory"), time.Time{}),
		"with a key that was taken away": sealedField(t, ring(t, "a"), tok("account/42", 34, "b"), time.Time{}),
		"a seal that has expired":        sealedField(t, issuer, tok("account/42", 34, "b"), time.Unix(1, 0)),
		"an expiry put off":              sealedField(t, issuer, tok("account/42", 34, "b"), time.Unix(1, 0)) + ";x=99999999999",
	} {
		for _, method := range []string{"PUT", "GET"} {
			got := s.do(method, "/accounts/42", field)
			require.Equal(t, http.StatusForbidden, got.status, "%s %s", method, name)
			require.Equal(t, httpguard.ProblemSeal, got.problem(t)["type"])
			require.NotContains(t, got.body, "34")
		}
	}
	require.Empty(t, b.written())
	require.EqualValues(t, 33, marks.Mark("account/42").Number)
	require.Equal(t, http.StatusNoContent, s.do("PUT", "/accounts/42", good).status)
	require.Equal(t, http.StatusNoContent, s.do("PUT", "/accounts/42", good, forgedOther).status, "others' tokens are passed over")
}

const forgedOther = `999999999999999;r="account/7";h="mallory"`

func TestAForgerDoesNotDisturbTheWindow(t *testing.T) {
	t.Parallel()
	issuer := ring(t, "a")
	o := open(t, false, func(m *httpguard.Middleware) { m.Seals = issuer })
	good := sealedField(t, issuer, tok("account/42", 34, "a"), time.Time{})
	reply := make(chan int, 1)
	go func() { reply <- o.try("/accounts/42", good) }()
	working := o.expect(t, 34)
	require.Equal(t, http.StatusForbidden, o.do("PUT", "/accounts/42", line("account/42", huge, "mallory")).status)
	require.NoError(t, working.r.Context().Err())
	working.leave()
	require.Equal(t, http.StatusNoContent, <-reply)
}

// leased is a context under a lease.
func leased(t *testing.T) context.Context {
	t.Helper()
	lease, err := (&token.Locker{Issuer: &memtoken.Issuer{}, Name: "test"}).Acquire(t.Context(), "account/42")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, lease.Release(context.Background())) })
	return lease.Context()
}

func TestKeysAreChangedWhileTheServiceRuns(t *testing.T) {
	t.Parallel()
	guarding, issuer := ring(t, "old"), ring(t, "old")
	s := serve(t, (&bank{}).mux(httpguard.Middleware{Resources: accounts, Store: &guard.Memory{}, Seals: guarding}), false)
	put := func() int {
		return s.do("PUT", "/accounts/42", sealedField(t, issuer, tok("account/42", 34, "a"), time.Time{})).status
	}
	require.Equal(t, http.StatusNoContent, put())
	require.NoError(t, guarding.Replace(key("old"), key("new")))
	require.Equal(t, http.StatusNoContent, put())
	require.NoError(t, issuer.Replace(key("new")))
	require.Equal(t, http.StatusNoContent, put())
	require.NoError(t, guarding.Replace(key("new")))
	require.Equal(t, http.StatusNoContent, put())
	require.NoError(t, issuer.Replace(key("old")))
	require.Equal(t, http.StatusForbidden, put())
}

// The edge has no key, and calls the service that has: what it was sent goes
// on as it was sent, and what it holds itself is sealed only by its own key.
func TestTransportSeals(t *testing.T) {
	t.Parallel()
	issuer := ring(t, "a")
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
	good := sealedField(t, issuer, tok("account/42", 34, "b"), time.Time{})
	forged := line("account/42", huge, "mallory")
	require.Equal(t, good, sent(through(good), httpguard.Transport{}), "no key, no matter")
	require.Equal(t, good, sent(through(good), httpguard.Transport{Seals: ring(t, "b")}), "it keeps its seal")
	require.Equal(t, forged, sent(through(forged), httpguard.Transport{Seals: issuer}), "nobody vouches for it")
	moved := token.NewContext(t.Context(), token.All(through(forged))[0])
	require.Equal(t, forged, sent(moved, httpguard.Transport{Seals: issuer}), "nor where it was moved to another context")
	_, err := httpguard.Transport{Hosts: []string{"api.example"}, Seals: issuer, SealFor: -1}.RoundTrip(request(t, leased(t), "http://api.example"))
	require.ErrorContains(t, err, "SealFor", "which would be for ever")

	locker := token.Locker{Issuer: &memtoken.Issuer{}, Name: "test"}
	require.NoError(t, locker.Hold(t.Context(), "account/42", func(ctx context.Context) error {
		for _, life := range []time.Duration{0, time.Hour} {
			field := sent(ctx, httpguard.Transport{Seals: issuer, SealFor: life})
			all, err := httpguard.ParseSealed([]string{field})
			require.NoError(t, err)
			require.NoError(t, issuer.Verify(all[0]))
			require.Equal(t, life != 0, all[0].Until != 0)
		}
		return nil
	}))
}
