package zktoken_test

import (
	"context"
	"testing"

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
	registertest.TestIssuer(t, n, func(_ *testing.T, i int) register.Interface { return all[i] },
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
	t.Run("the znodes of all legal names are different and are listed, and a newcomer takes over", func(t *testing.T) {
		t.Parallel()
		open := func() register.Interface { return zktoken.New(zktoken.Config{Conn: conn, Root: "/apps/names/"}) }
		for _, err := range open().Locks(t.Context(), "") {
			t.Error("there is no znode yet", err)
		}
		registertest.TestNames(t, open)
		create(t, "/apps/names/of another=program", "x")
		registertest.TestNames(t, open)
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
}
