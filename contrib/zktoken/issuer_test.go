package zktoken_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/zktoken"
	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/internal/register/registertest"
	"github.com/fencepost/fencepost/token"
)

func TestIssuerOnZooKeeper(t *testing.T) {
	t.Parallel()
	conform(t, 1, start(t, "").addr())
}

func TestStressIssuerOnZooKeeperInEightProcesses(t *testing.T) {
	t.Parallel()
	conform(t, 8, start(t, "").addr())
}

// conform tests issuers with connections of their own, as in processes.
func conform(t *testing.T, n int, servers ...string) {
	t.Helper()
	conn, all := connect(t, nil, servers...), make([]*zktoken.Issuer, n)
	for i := range all {
		all[i] = issuer(t, servers[i%len(servers)])
	}
	registertest.TestIssuer(t, n, func(_ *testing.T, i int) registertest.Issuer { return all[i] },
		func(_ context.Context, resource string) error {
			return conn.Delete("/fencepost/"+register.Name(resource), -1)
		})
}

func TestZnodes(t *testing.T) {
	t.Parallel()
	conn := connect(t, nil, start(t, "").addr())
	create := func(t *testing.T, path, data string) {
		t.Helper()
		_, err := conn.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	t.Run("the znodes of all legal names are different and are listed", func(t *testing.T) {
		t.Parallel()
		iss := zktoken.New(zktoken.Config{Conn: conn, Root: "/apps/names/"})
		for _, err := range iss.Locks(t.Context(), "") {
			t.Error("there is no znode yet", err)
		}
		names := []string{"a", "a/", "a/b", "a//b", "a=2F", "clock", ".clock", "zookeeper", "ä", "日本/%2F?#&", `"\\`, "..", ".", " ", "-x", "\u00ff\U0010FFFF", strings.Repeat("/", token.MaxNameBytes)}
		want := map[string]int64{}
		for _, name := range names {
			grant, err := iss.Acquire(t.Context(), name, "h", long)
			require.NoError(t, err, "%q", name)
			want[name] = grant.Token.Number
		}
		create(t, "/apps/names/of another=program", "x")
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
		for _, err := range iss.Locks(t.Context(), "") {
			require.NoError(t, err)
			break
		}
	})
	t.Run("a znode that another program has written is an error that names it", func(t *testing.T) {
		t.Parallel()
		create(t, "/other", "")
		create(t, "/other/account=2F42", "locked")
		iss := zktoken.New(zktoken.Config{Conn: conn, Root: "/other"})
		_, err := iss.Acquire(t.Context(), resource, "h", long)
		require.ErrorContains(t, err, "zktoken: the znode /other/account=2F42 has no record")
		require.NotErrorIs(t, err, token.ErrUnreachable)
		for _, err := range iss.Locks(t.Context(), "") {
			require.ErrorContains(t, err, "has no record")
		}
	})
	t.Run("the clock is the server's", func(t *testing.T) {
		t.Parallel()
		store := zktoken.StoreOf(zktoken.New(zktoken.Config{Conn: conn, Root: "/clock"}))
		clock, err := store.(register.Clocker).Clock(t.Context())
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), clock, time.Minute)
	})
	t.Run("a newcomer takes over from a dead holder without waiting", func(t *testing.T) { // by that clock
		t.Parallel()
		open := func() *zktoken.Issuer { return zktoken.New(zktoken.Config{Conn: conn, Root: "/dead"}) }
		_, err := open().Acquire(t.Context(), "dead", "h", time.Millisecond)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			_, err := open().Acquire(t.Context(), "dead", "newcomer", time.Minute)
			return err == nil
		}, time.Minute, 100*time.Millisecond)
	})
}
