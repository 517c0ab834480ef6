package pgadvisory_test

import (
	"context"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/contrib/pgadvisory"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
)

// The locks have a pool of their own: each lease and each waiter keeps a connection.
func Example() {
	ctx := context.Background()
	data, err := pgxpool.New(ctx, "postgres://localhost/bank")
	if err != nil {
		log.Fatal(err)
	}
	defer data.Close()
	locks, err := pgxpool.New(ctx, "postgres://localhost/bank?pool_max_conns=32")
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	issuer := &pgadvisory.Issuer{Pool: locks}
	defer issuer.Close() // before the pool's Close
	g := &sqlguard.Guard{DB: data}
	locker := lock.Locker{Issuer: issuer, Name: "billing", Claim: g.Admit}
	err = locker.Hold(ctx, "account/42", func(ctx context.Context) error {
		_, err := g.On("account/42").Exec(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 42")
		return err
	})
	if err != nil {
		log.Print(err)
	}
}
