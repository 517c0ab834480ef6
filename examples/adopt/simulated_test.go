package adopt_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// redsync's lock, numbered by Mint, survives: whoever minted last is the writer,
// and what is read after that is safe, in the transaction or before it.
func TestRedsyncWithMintSurvives(t *testing.T) {
	t.Parallel()
	s, fence := redsyncSubject(t)
	s.Issuer.(*redsyncIssuer).number = func(ctx context.Context, resource, holder string) (token.Token, error) {
		return fence.Mint(ctx, fence.DB, resource, holder)
	}
	require.NoError(t, simulations.Examine(t, s))
}

// Numbered by INCR it does not: the mark knows of a number only when it is
// written under, and what was read before can be older.
func TestRedsyncWithINCRLosesWhatWasReadBefore(t *testing.T) { // hazard G3
	t.Parallel()
	s, _ := redsyncSubject(t)
	rdb, prefix := testenv.Redis(t)
	s.Issuer.(*redsyncIssuer).number = func(ctx context.Context, resource, holder string) (token.Token, error) {
		n, err := rdb.Incr(ctx, prefix+resource).Result()
		return token.Token{Resource: resource, Number: n, Holder: holder}, err
	}
	var verdict *simulations.Verdict
	require.ErrorAs(t, simulations.Examine(t, s), &verdict)
	require.True(t, verdict.Breaks("once"), "%v", verdict)
	t.Log(verdict)
}

// redsyncSubject reads before the transaction that writes.
func redsyncSubject(t *testing.T) (simulations.Subject, *sqlguard.Guard) {
	t.Helper()
	pool, schema := testenv.Postgres(t)
	pool = traced(t, pool)
	rdb, prefix := testenv.Redis(t)
	units := pgx.Identifier{schema, "units"}.Sanitize()
	_, err := pool.Exec(t.Context(), "CREATE TABLE "+units+" (n int NOT NULL); INSERT INTO "+units+" VALUES (0)")
	require.NoError(t, err)
	fence := &sqlguard.Guard{DB: pool, Schema: schema}
	count := func(ctx context.Context) (n int, err error) {
		err = pool.QueryRow(ctx, "SELECT n FROM "+units).Scan(&n)
		return n, err
	}
	return simulations.Subject{
		Issuer:   &redsyncIssuer{locks: redsync.New(goredis.NewPool(rdb)), prefix: prefix},
		Resource: "account/42", Count: count,
		Do: func(ctx context.Context) error {
			n, err := count(ctx)
			if err != nil {
				return err
			}
			_, err = fence.On("account/42").Exec(ctx, "UPDATE "+units+" SET n = $1", n+1)
			return err
		},
	}, fence
}

// redsyncIssuer is redsync as an issuer, with numbers from elsewhere.
type redsyncIssuer struct {
	locks  *redsync.Redsync
	prefix string
	number func(ctx context.Context, resource, holder string) (token.Token, error)
	held   sync.Map // holders, and their mutexes
}

func (i *redsyncIssuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	mutex := i.locks.NewMutex(i.prefix+resource, redsync.WithExpiry(ttl), redsync.WithTries(1), redsync.WithValue(holder))
	if err := mutex.LockContext(ctx); err != nil {
		if errors.As(err, new(*redsync.ErrTaken)) {
			return token.Grant{}, &token.HeldError{Resource: resource, Remaining: ttl}
		}
		return token.Grant{}, err
	}
	i.held.Store(holder, mutex)
	tok, err := i.number(ctx, resource, holder)
	return token.Grant{Token: tok, Until: mutex.Until()}, err
}

func (i *redsyncIssuer) Renew(ctx context.Context, tok token.Token, _ time.Duration) (time.Time, error) {
	mutex, ok := i.held.Load(tok.Holder)
	if !ok {
		return time.Time{}, token.ErrLost
	}
	if ok, err := mutex.(*redsync.Mutex).ExtendContext(ctx); !ok {
		return time.Time{}, errors.Join(token.ErrLost, err)
	}
	return mutex.(*redsync.Mutex).Until(), nil
}

func (i *redsyncIssuer) Release(ctx context.Context, tok token.Token) error {
	mutex, ok := i.held.Load(tok.Holder)
	if !ok {
		return token.ErrLost
	}
	if ok, err := mutex.(*redsync.Mutex).UnlockContext(ctx); !ok {
		return errors.Join(token.ErrLost, err)
	}
	return nil
}

// traced returns a pool like it whose statements a simulation can stop at.
func traced(t *testing.T, pool *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	config := pool.Config()
	config.ConnConfig.Tracer = pgxpoint.Tracer{}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}
