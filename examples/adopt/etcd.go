package adopt

import (
	"context"
	"crypto/rand"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// Etcd needs no other source of numbers: it uses the revision at which etcd granted the
// mutex.
func Etcd(ctx context.Context, session *concurrency.Session, pool *pgxpool.Pool, work func(pgx.Tx) error) error {
	mutex := concurrency.NewMutex(session, "/locks/account/42")
	if err := mutex.Lock(ctx); err != nil {
		return err
	}
	defer mutex.Unlock(context.WithoutCancel(ctx))
	tok, err := token.New("account/42", mutex.Header().Revision, mutex.Key()+":"+rand.Text())
	if err != nil {
		return err
	}
	return sqlguard.Update(token.NewContext(ctx, tok), pool, "account/42", work)
}
