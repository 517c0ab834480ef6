package pgtoken_test

import (
	"context"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token/pgtoken"
)

func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/bank")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	issuer := &pgtoken.Issuer{DB: pool}
	defer issuer.Close()
	g := &sqlguard.Guard{DB: pool}
	locker := lock.Locker{Issuer: issuer, Name: "billing", Claim: g.Admit}
	err = locker.Hold(ctx, "account/42", func(ctx context.Context) error {
		_, err := g.On("account/42").Exec(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 42")
		return err
	})
	if err != nil {
		log.Print(err)
	}
}
