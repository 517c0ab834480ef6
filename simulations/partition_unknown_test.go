package simulations_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations/proxy"
	"github.com/fencepost/fencepost/token"
)

type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// A write whose COMMIT is not answered is unknown: it was applied, or it was
// not, and nobody may say that it was refused.
func TestACommitThatIsNotAnsweredIsUnknown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hole    proxy.Way
		cut     proxy.Way
		balance int
	}{
		"the answer was lost, and the write was applied":       {proxy.ToClient, proxy.ToClient, 50},
		"the COMMIT was lost, and the write was not applied":   {proxy.ToServer, proxy.Both, 100},
		"the COMMIT came late, and the write was applied then": {proxy.ToServer, proxy.ToClient, 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBank(t)
			ctx := token.NewContext(t.Context(), token.Token{Resource: resource, Number: 33, Holder: "a"})
			commits := make(chan struct{})
			b.commits = func() { b.Blackhole(c.hole); close(commits) }
			answer := make(chan error, 1)
			go func() {
				answer <- b.a.Update(ctx, resource, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, b.sets, 50)
					return err
				})
			}()
			<-commits
			holds(t, b.Proxy, c.hole)
			b.Cut(c.cut)
			err := <-answer
			require.ErrorIs(t, err, guard.ErrUnknown)
			require.NotErrorIs(t, err, guard.ErrStale)
			b.Heal(c.hole)
			b.settled(t)
			b.Heal(proxy.Both) // a reset: what the server had not read yet would be lost
			b.gone(t)
			require.Equal(t, c.balance, b.balance(t))
		})
	}
}
