package consultoken_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/internal/register/registertest"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/consultoken"
)

func TestStressIssuerOnConsul(t *testing.T) {
	t.Parallel()
	testIssuer(t, 1)
}

func TestStressSixteenProcessesOnConsul(t *testing.T) {
	t.Parallel()
	testIssuer(t, 16)
}

func testIssuer(t *testing.T, processes int) {
	t.Helper()
	s := newServer(t, "limits { http_max_conns_per_client = 10000 }")
	registertest.TestIssuer(t, processes,
		func(t *testing.T, _ int) registertest.Issuer { t.Helper(); return s.issuer(t) },
		func(_ context.Context, resource string) error {
			s.must(t, http.MethodDelete, "/v1/kv/fencepost/"+register.Name(resource), nil)
			return nil
		})
}

func TestStressKeysInConsul(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	open := func(prefix string) *consultoken.Issuer {
		return consultoken.New(consultoken.Config{URL: serverproc.Loopback(s.Port) + "/", Prefix: prefix, Client: client(t, nil)})
	}
	t.Run("the keys of all legal names are different and are listed", func(t *testing.T) {
		t.Parallel()
		iss := open("names of/50 %?#/")
		names := []string{"a", "a/", "a/b", "a//b", "A", "=", "=2F", "ä", "日本/%2F?#&", `"\\`, "..", ".", " ", "-x", "\u00ff\U0010FFFF", strings.Repeat("x", token.MaxNameBytes), strings.Repeat("/", token.MaxNameBytes)}
		want := map[string]int64{}
		for _, name := range names {
			grant, err := iss.Acquire(t.Context(), name, "h", long)
			require.NoError(t, err, "%q", name)
			_, err = iss.Renew(t.Context(), grant.Token, long)
			require.NoError(t, err, "%q", name)
			want[name] = grant.Token.Number
		}
		for _, prefix := range []string{"", "a", "a/", "日", "\u00ff\U0010FFFF", "none"} {
			got := map[string]int64{}
			for state, err := range iss.Locks(t.Context(), prefix) {
				require.NoError(t, err)
				require.Equal(t, "h", state.Holder)
				got[state.Resource] = state.Number
			}
			for name, number := range want {
				if strings.HasPrefix(name, prefix) {
					require.Equal(t, number, got[name], "%q", name)
					delete(got, name)
				}
			}
			require.Empty(t, got, "%q", prefix)
		}
	})
	t.Run("a key that another program has written is an error that names it", func(t *testing.T) {
		t.Parallel()
		s.must(t, http.MethodPut, "/v1/kv/other/account=2F42", []byte("locked"))
		iss := open("other/")
		_, err := iss.Acquire(t.Context(), resource, "h", long)
		require.ErrorContains(t, err, `consultoken: the key "other/account=2F42" has no record`)
		require.NotErrorIs(t, err, token.ErrUnreachable)
		for _, err := range iss.Locks(t.Context(), "") {
			require.ErrorContains(t, err, `consultoken: the key "other/account=2F42" has no record`)
		}
		s.must(t, http.MethodPut, "/v1/kv/foreign/a=b", []byte("{}"))
		for _, err := range open("foreign/").Locks(t.Context(), "") {
			require.ErrorContains(t, err, `consultoken: the key "foreign/a=b" is not an issuer's`)
		}
	})
	t.Run("a reply has the clock of the agent", func(t *testing.T) {
		t.Parallel()
		store := consultoken.StoreOf(open("clock/"))
		e, err := store.Load(t.Context(), "none")
		require.NoError(t, err)
		require.Empty(t, e.Version)
		require.WithinDuration(t, time.Now(), e.Clock, time.Minute)
		e, swapped, err := store.Swap(t.Context(), "none", "", register.Record{Number: 1})
		require.NoError(t, err)
		require.True(t, swapped)
		require.WithinDuration(t, time.Now(), e.Clock, time.Minute)
	})
	t.Run("a newcomer takes over from a dead holder without waiting", func(t *testing.T) { // by that clock
		t.Parallel()
		_, err := open("").Acquire(t.Context(), "dead", "h", time.Millisecond)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			_, err := open("").Acquire(t.Context(), "dead", "newcomer", time.Minute)
			return err == nil
		}, time.Minute, 100*time.Millisecond)
	})
	t.Run("a Swap from another version writes nothing", func(t *testing.T) {
		t.Parallel()
		store := consultoken.StoreOf(open("swap/"))
		first, swapped, err := store.Swap(t.Context(), resource, "", register.Record{Number: 1})
		require.NoError(t, err)
		require.True(t, swapped)
		second, swapped, err := store.Swap(t.Context(), resource, first.Version, register.Record{Number: 2})
		require.NoError(t, err)
		require.True(t, swapped)
		for _, old := range []string{"", first.Version} {
			now, swapped, err := store.Swap(t.Context(), resource, old, register.Record{Number: 3})
			require.NoError(t, err)
			require.False(t, swapped)
			require.Equal(t, second.Version, now.Version)
			require.EqualValues(t, 2, now.Number)
		}
		s.must(t, http.MethodDelete, "/v1/kv/swap/account=2F42", nil)
		now, swapped, err := store.Swap(t.Context(), resource, second.Version, register.Record{Number: 3})
		require.NoError(t, err)
		require.False(t, swapped, "the record was deleted")
		require.Empty(t, now.Version)
	})
}

func TestAServerThatCannotBeReached(t *testing.T) {
	t.Parallel()
	for url, curable := range map[string]bool{
		serverproc.Loopback(serverproc.FreePort(t)): true,
		"fencepost.invalid:8500":                    true,
		"a b":                                       false,
	} {
		iss := consultoken.New(consultoken.Config{URL: url, Client: client(t, nil)})
		store := consultoken.StoreOf(iss)
		for what, call := range map[string]func() error{
			"Acquire": func() error { _, err := iss.Acquire(t.Context(), resource, "h", long); return err },
			"Swap": func() error {
				_, _, err := store.Swap(t.Context(), resource, "", register.Record{Number: 1})
				return err
			},
			"Watch": func() error { _, err := store.Watch(t.Context(), resource, "7"); return err },
			"Locks": func() (err error) {
				for _, err = range iss.Locks(t.Context(), "") {
				}
				return err
			},
		} {
			err := call()
			require.ErrorContains(t, err, "consultoken: ", "%s: %s", url, what)
			require.Equal(t, curable, isUnreachable(err), fmt.Sprintf("%s: %s: %v", url, what, err))
		}
	}
}
