package consultoken_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/internal/register/registertest"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/consultoken"
)

func TestStressIssuerOnConsul(t *testing.T) {
	t.Parallel()
	testIssuer(t, 1, newServer(t, manyConnections))
}

func TestStressSixteenProcessesOnConsul(t *testing.T) {
	t.Parallel()
	testIssuer(t, 16, newServer(t, manyConnections))
}

// Each process asks a server of its own.
func TestStressIssuerOnThreeServersOfConsul(t *testing.T) {
	t.Parallel()
	testIssuer(t, 3, newCluster(t, manyConnections)...)
}

const manyConnections = "limits { http_max_conns_per_client = 10000 }"

func testIssuer(t *testing.T, processes int, servers ...*server) {
	t.Helper()
	registertest.TestIssuer(t, processes,
		func(t *testing.T, i int) register.Interface { t.Helper(); return servers[i%len(servers)].issuer(t) },
		func(_ context.Context, resource string) error {
			servers[0].must(t, http.MethodDelete, "/v1/kv/fencepost/"+register.Name(resource), nil)
			return nil
		})
}

func TestStressKeysInConsul(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	open := func(prefix string) *consultoken.Issuer {
		return consultoken.New(consultoken.Config{URL: serverproc.Loopback(s.Port) + "/", Prefix: prefix, Client: client(t, nil)})
	}
	t.Run("the keys of all legal names are different and are listed, and a newcomer takes over", func(t *testing.T) {
		t.Parallel()
		registertest.TestNames(t, func() register.Interface { return open("names of/50 %?#/") })
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
