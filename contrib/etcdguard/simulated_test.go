package etcdguard_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token/memtoken"
)

// hazard G2
func TestACounterSurvivesThePause(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	count := func(ctx context.Context) (int, error) {
		resp, err := e.client.Get(ctx, e.key)
		if err != nil || len(resp.Kvs) == 0 {
			return 0, err
		}
		return strconv.Atoi(string(resp.Kvs[0].Value))
	}
	simulations.Run(t, simulations.Subject{
		Issuer: new(memtoken.Issuer), Resource: resource, Claim: e.guard.Admit,
		Do: func(ctx context.Context) error {
			n, err := count(ctx)
			if err != nil {
				return err
			}
			_, err = e.guard.Txn(ctx, resource).Then(clientv3.OpPut(e.key, strconv.Itoa(n+1))).Commit()
			return err
		},
		Count:  count,
		Unseen: "Do writes by the guard alone, and there is no tracer for etcd",
	})
}

func TestSteps(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	steps := func(h *hooktest.Record, number int64) (string, error) {
		err := e.put(with(h.Listen(t.Context()), number, "a"), e.guard, "x")
		lines := h.Transactions()
		require.Len(t, lines, 1)
		return lines[0], err
	}
	seen, err := steps(new(hooktest.Record), 33)
	require.NoError(t, err)
	require.Equal(t, "begin applied", seen)
	seen, err = steps(new(hooktest.Record), 32)
	require.ErrorIs(t, err, guard.ErrStale)
	require.Equal(t, "begin undone", seen)
	seen, err = steps(&hooktest.Record{DropReplies: true}, 33)
	require.ErrorIs(t, err, guard.ErrUnknown)
	require.Equal(t, "begin unknown", seen)
	_, before := e.get(e.key)
	seen, err = steps(&hooktest.Record{DropCommits: true}, 33)
	require.ErrorIs(t, err, guard.ErrUnknown)
	require.Equal(t, "begin unknown", seen)
	_, after := e.get(e.key)
	require.Equal(t, before, after, "it was not sent")
	require.NoError(t, e.put(with(failpoint.Unguarded(t.Context()), 32, "b"), e.guard, "the twin's"))
	require.Equal(t, "the twin's", e.written())
	var h hooktest.Record
	require.NoError(t, e.guard.Admit(h.Listen(t.Context()), tok(34, "a")))
	require.Equal(t, []string{"begin undone"}, h.Transactions(), "a claim writes nothing")
}
