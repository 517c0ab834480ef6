package etcdtoken_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/internal/register/registertest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/etcdtoken"
)

func TestIssuerOnEtcd(t *testing.T) {
	t.Parallel()
	testIssuer(t, 1)
}

func TestStressSixteenProcessesOnEtcd(t *testing.T) {
	t.Parallel()
	testIssuer(t, 16)
}

func testIssuer(t *testing.T, processes int) {
	t.Helper()
	server := testenv.OwnEtcd(t)
	registertest.TestIssuer(t, processes,
		func(t *testing.T, _ int) register.Interface { t.Helper(); return issuer(t, server.Addr()) },
		func(_ context.Context, resource string) error { remove(t, server, resource); return nil })
}

func TestKeys(t *testing.T) {
	t.Parallel()
	server := testenv.OwnEtcd(t)
	t.Run("the keys of all legal names are different and are listed, and a newcomer takes over", func(t *testing.T) {
		t.Parallel()
		registertest.TestNames(t, func() register.Interface {
			return etcdtoken.New(etcdtoken.Config{Endpoints: []string{server.URL()}, Prefix: "names/", Client: client(t, nil)})
		})
	})
	t.Run("more locks than one page are listed", func(t *testing.T) {
		t.Parallel()
		iss := etcdtoken.New(etcdtoken.Config{Endpoints: []string{server.URL()}, Prefix: "pages", Client: client(t, nil)})
		for page := range 11 {
			var puts []map[string]any
			for n := range 100 {
				key := fmt.Sprintf("pages%d/%d", page, n)
				puts = append(puts, map[string]any{"request_put": map[string]any{"key": []byte(key), "value": record}})
			}
			admin(t, server, "", "/v3/kv/txn", map[string]any{"success": puts})
		}
		found := map[string]bool{}
		for state, err := range iss.Locks(t.Context(), "") {
			require.NoError(t, err)
			found[state.Resource] = true
		}
		require.Len(t, found, 1100)
	})
	t.Run("a key that another program has written is an error that names it", func(t *testing.T) {
		t.Parallel()
		put(t, server, "other/"+resource, "locked")
		iss := etcdtoken.New(etcdtoken.Config{Endpoints: []string{server.URL()}, Prefix: "other/", Client: client(t, nil)})
		_, err := iss.Acquire(t.Context(), resource, "h", long)
		require.ErrorContains(t, err, `etcdtoken: the key "other/account/42" has no record`)
		require.NotErrorIs(t, err, token.ErrUnreachable)
	})
	t.Run("without endpoints each call is an error", func(t *testing.T) {
		t.Parallel()
		_, err := issuer(t).Acquire(t.Context(), resource, "h", long)
		require.EqualError(t, err, "etcdtoken: the Config has no Endpoints")
		_, err = etcdtoken.StoreOf(issuer(t)).Watch(t.Context(), resource, "")
		require.EqualError(t, err, "etcdtoken: the Config has no Endpoints")
	})
}

// remove deletes the key of a resource.
func remove(t *testing.T, server *testenv.EtcdServer, resource string) {
	t.Helper()
	admin(t, server, "", "/v3/kv/deleterange", map[string]any{"key": []byte("fencepost/" + resource)})
}

var record = []byte(`{"number":7,"holder":"h","ttl_ms":3600000,"beat":1}`)

func put(t *testing.T, server *testenv.EtcdServer, key, value string) {
	t.Helper()
	admin(t, server, "", "/v3/kv/put", map[string]any{"key": []byte(key), "value": []byte(value)})
}
