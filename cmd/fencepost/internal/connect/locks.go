package connect

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/etcdtoken"
	"github.com/fencepost/fencepost/token/memtoken"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// Locks has the flags of the commands that use the locks of one server.
type Locks struct {
	Redis    string `server:"one" env:"FENCEPOST_REDIS_URL" placeholder:"URL" help:"The Redis that has the lock. Every user of the machine can read a password in a flag: set the variable instead."`
	Postgres string `server:"one" env:"FENCEPOST_POSTGRES_URL" placeholder:"URL" help:"The PostgreSQL database that has the lock, in the tables of fencepost migrate up."`
	Etcd     string `server:"one" env:"FENCEPOST_ETCD_URL" placeholder:"URL" help:"The etcd that has the lock: the URLs of its members, separated by commas, of which the first may have a user and a password."`
	Schema   string `default:"fencepost" placeholder:"NAME" help:"The schema in PostgreSQL (${default})."`
}

// Issuer is what the issuers of the commands implement.
type Issuer interface {
	token.Issuer
	token.Recoverer
	token.Inspector
}

// LockStore is the server that has the locks.
type LockStore struct {
	Issuer
	close func()
}

// Shutdown closes the connections, within a second: a server that does not answer must not
// block the end of the process.
func (s *LockStore) Shutdown() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.close()
	}()
	select {
	case <-closed:
	case <-time.After(time.Second):
	}
}

// Memory returns locks in this process.
func Memory() *LockStore { return &LockStore{new(memtoken.Issuer), func() {}} }

// Open connects to the server, and returns an error if the server does not answer: with a
// wrong address a run must end at once, not after --wait. PostgreSQL shows the name of the
// application, and keys in Redis and etcd begin with prefix.
func (l *Locks) Open(ctx context.Context, application, prefix string) (store *LockStore, err error) {
	ctx, cancel := Within(ctx)
	defer cancel()
	var ping func(ctx context.Context) error
	switch {
	case l.Etcd != "":
		etcd, err := NewEtcd(l.Etcd, prefix)
		if err != nil {
			return nil, err
		}
		issuer := etcdtoken.New(etcd.Config)
		store, ping = &LockStore{issuer, etcd.Client.CloseIdleConnections}, func(ctx context.Context) error {
			if _, err := issuer.Inspect(ctx, "fencepost"); err != nil {
				return fmt.Errorf("etcd cannot be used: %w", err)
			}
			return nil
		}
	case l.Postgres != "":
		pool, answers, err := Pool(l.Postgres, "--postgres", application)
		if err != nil {
			return nil, err
		}
		issuer := &pgtoken.Issuer{DB: pool, Schema: l.Schema, Claims: true}
		store, ping = &LockStore{issuer, func() { issuer.Close(); pool.Close() }}, answers
	default:
		client, answers, err := Redis(l.Redis, "--redis")
		if err != nil {
			return nil, err
		}
		issuer := &redistoken.Issuer{Client: client, Prefix: prefix}
		store, ping = &LockStore{issuer, func() { issuer.Close(); client.Close() }}, answers
	}
	if err := ping(ctx); err != nil {
		store.Shutdown()
		return nil, WithCause(ctx, err)
	}
	return store, nil
}

// Pool returns a pool, and a function that returns an error if the server does not answer.
// The parameters are those of [PostgresPool].
func Pool(url, flag, application string) (*pgxpool.Pool, func(ctx context.Context) error, error) {
	config, err := PostgresPool(url, flag, application)
	if err != nil {
		return nil, nil, err
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, nil, fmt.Errorf("postgres cannot be used: %w", err)
	}
	return pool, func(ctx context.Context) error {
		if err := pool.Ping(ctx); err != nil {
			return fmt.Errorf("postgres cannot be used: %w", err)
		}
		return nil
	}, nil
}
