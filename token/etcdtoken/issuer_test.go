package etcdtoken_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
		func(t *testing.T, _ int) registertest.Issuer { t.Helper(); return issuer(t, server.Addr()) },
		func(_ context.Context, resource string) error { remove(t, server, resource); return nil })
}

func TestKeys(t *testing.T) {
	t.Parallel()
	server := testenv.OwnEtcd(t)
	t.Run("the keys of all legal names are different and are listed", func(t *testing.T) {
		t.Parallel()
		iss := etcdtoken.New(etcdtoken.Config{Endpoints: []string{server.URL()}, Prefix: "names/", Client: client(t, nil)})
		names := []string{"a", "a/", "a/b", "a//b", "ä", "日本/%2F?#&", `"\\`, "..", ".", " ", "-x", "\u00ff\U0010FFFF", strings.Repeat("x", token.MaxNameBytes)}
		want := map[string]int64{}
		for _, name := range names {
			grant, err := iss.Acquire(t.Context(), name, "h", long)
			require.NoError(t, err, "%q", name)
			want[name] = grant.Token.Number
		}
		for _, prefix := range []string{"", "a", "a/", "日", "\u00ff\U0010FFFF"} {
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
	t.Run("a reply has the clock of the server", func(t *testing.T) {
		t.Parallel()
		store := etcdtoken.StoreOf(issuer(t, server.URL()))
		e, err := store.Load(t.Context(), "none")
		require.NoError(t, err)
		require.Empty(t, e.Version)
		require.WithinDuration(t, time.Now(), e.Clock, time.Minute)
	})
	t.Run("a newcomer takes over from a dead holder without waiting", func(t *testing.T) { // by that clock
		t.Parallel()
		_, err := issuer(t, server.URL()).Acquire(t.Context(), "dead", "h", time.Millisecond)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			_, err := issuer(t, server.URL()).Acquire(t.Context(), "dead", "newcomer", time.Minute)
			return err == nil
		}, time.Minute, 100*time.Millisecond)
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
