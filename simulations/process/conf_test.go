package process_test

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token/redistoken"
)

// conf is what a writer's process is told.
type conf struct {
	Postgres, Schema string
	Redis, Prefix    string
	Service          string // URL of the HTTP service
	Idle             time.Duration
	Work             time.Duration // between read and write
}

func (c conf) String() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// servers connects to what text names, and returns a subject without Do.
func servers(ctx context.Context, text string) (conf, *ledger, simulations.Subject, func() error, error) {
	var c conf
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, nil, simulations.Subject{}, nil, err
	}
	pool, err := pgxpool.New(ctx, c.Postgres)
	if err != nil {
		return c, nil, simulations.Subject{}, nil, err
	}
	options, err := redis.ParseURL(c.Redis)
	if err != nil {
		return c, nil, simulations.Subject{}, nil, err
	}
	client := redis.NewClient(options)
	l := ledgerOf(c, pool)
	s := simulations.Subject{
		Issuer: &redistoken.Issuer{Client: client, Prefix: c.Prefix}, Resource: resource,
		Count: l.Count, TTL: ttl,
	}
	end := func() error {
		pool.Close()
		return client.Close()
	}
	return c, l, s, end, nil
}
