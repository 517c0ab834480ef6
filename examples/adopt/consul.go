package adopt

import (
	"cmp"
	"context"
	"crypto/rand"

	"github.com/hashicorp/consul/api"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/sqlguard"
)

// Consul keeps the lock of Consul's client, which renews its session.
func Consul(ctx context.Context, client *api.Client, pool *pgxpool.Pool, work func(pgx.Tx) error) error {
	lock, err := client.LockKey("locks/account/42")
	if err != nil {
		return err
	}
	lost, err := lock.Lock(ctx.Done())
	if err != nil || lost == nil {
		return cmp.Or(err, context.Cause(ctx)) // nil without an error: ctx has ended
	}
	defer lock.Unlock()
	fence := &sqlguard.Guard{DB: pool}
	ctx, err = fence.Mint(ctx, "account/42", rand.Text())
	if err != nil {
		return err
	}
	return fence.Update(ctx, "account/42", work)
}
