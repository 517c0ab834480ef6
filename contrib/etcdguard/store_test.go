package etcdguard_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/fencepost/fencepost/contrib/etcdguard"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/guard/guardtest"
	"github.com/fencepost/fencepost/token"
)

// hazard G14
func TestStore(t *testing.T) {
	t.Parallel()
	guardtest.TestStore(t, func(t *testing.T) guard.Store { return newEnv(t).guard })
}

// hazard G14
func TestATransactionAdmitsAsTheStoreDoes(t *testing.T) {
	t.Parallel()
	guardtest.TestStore(t, func(t *testing.T) guard.Store {
		e := newEnv(t)
		return writing{e.guard, e.key}
	})
}

// writing is a store that admits by writing.
type writing struct {
	guard *etcdguard.Guard
	key   string
}

func (s writing) Admit(ctx context.Context, tok token.Token) error {
	_, err := s.guard.Txn(token.NewContext(ctx, tok), tok.Resource).Then(clientv3.OpPut(s.key, "x")).Commit()
	return err
}

func TestTheDefaultPrefix(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	require.NoError(t, (&etcdguard.Guard{Client: e.client}).Admit(t.Context(), token.Token{Resource: t.Name(), Number: 33, Holder: "a"}))
	mark, _ := e.get("fencepost/mark/" + t.Name())
	require.Equal(t, "000000000000033 a", mark)
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	of := func(prefix string, endpoints ...string) any {
		client := connect(t, endpoints[0])
		client.SetEndpoints(endpoints...)
		return (&etcdguard.Guard{Client: client, Prefix: prefix}).Identity()
	}
	mine := of("", "127.0.0.1:1", "127.0.0.1:2")
	require.Equal(t, mine, of("fencepost/mark/", "127.0.0.1:2", "127.0.0.1:1"))
	require.NotEqual(t, mine, of("other/", "127.0.0.1:1", "127.0.0.1:2"))
	require.NotEqual(t, mine, of("", "127.0.0.1:1"))
}

func TestAClientThatTheGuardWouldBypassIsRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	plain := e.client.KV
	e.client.KV = namespace.NewKV(plain, "mine/")
	for _, err := range []error{e.put(with(t.Context(), 33, "a"), e.guard, "x"), e.guard.Admit(t.Context(), tok(33, "a"))} {
		require.ErrorContains(t, err, "account/42: the Client's KV is wrapped")
		require.Empty(t, outcomes(err))
	}
	e.client.KV = plain
	require.Empty(t, e.written()+e.mark())
	require.ErrorContains(t, new(etcdguard.Guard).Admit(t.Context(), tok(33, "a")), "etcdguard: admit account/42: the Guard has no Client")
}
