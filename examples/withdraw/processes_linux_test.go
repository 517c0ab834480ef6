package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/process"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestMain(m *testing.M) {
	process.Serve(m, process.Subjects{"withdrawals": openWithdrawals})
	os.Exit(m.Run())
}

func TestWithdrawalsSurviveSIGSTOP(t *testing.T) {
	client, prefix := testenv.Redis(t)
	conf := strings.Join([]string{database(t), client.Options().Addr, prefix}, " ")
	process.Run(t, process.Options{Subject: "withdrawals", Conf: conf, At: "begin", Nth: 2, Rounds: 10})
}

// openWithdrawals is called in each process, with the Conf of the test.
func openWithdrawals(ctx context.Context, conf string) (simulations.Subject, func() error, error) {
	parts := strings.Fields(conf)
	pool, err := pgxpool.New(ctx, parts[0])
	if err != nil {
		return simulations.Subject{}, nil, err
	}
	rdb := redis.NewClient(&redis.Options{Addr: parts[1]})
	fence := &sqlguard.Guard{DB: pool}
	locks := &lock.Locker{Issuer: &redistoken.Issuer{Client: rdb, Prefix: parts[2]}, Claim: fence.Admit}
	app := program{pool, fence, locks}
	end := func() error {
		pool.Close()
		return rdb.Close()
	}
	return simulations.Subject{
		Issuer:   locks.Issuer,
		Resource: "account/42",
		Do:       func(ctx context.Context) error { return withdraw(ctx, locks, fence, 1) },
		Count:    app.withdrawn,
	}, end, nil
}
