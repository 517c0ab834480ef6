package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
	"github.com/fencepost/fencepost/simulations/process"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

var subjects = process.Subjects{
	"postgres":      openPostgres,
	"re-enters":     openReentrant,
	"http":          openHTTP,
	"replica":       openReplica,
	"check in HTTP": openCheckingReplica,
	"traced issuer": openTraced,
	"lock only":     openLockOnly,
	"check":         openCheckThenWrite,
	"in time":       openInTime,
	"fails":         openFailing,
	"no server":     openNothing,
}

func TestMain(m *testing.M) {
	process.Serve(m, subjects)
	leaktest.Main(m)
}

// conf is the configuration of a writer's process.
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

// servers connects to the servers in text, and returns a subject without Do.
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

const (
	resource = "account/42"
	ttl      = 50 * time.Millisecond
	// computed is the step between the read and the write.
	computed = "computed"
)

// newLedger makes a table with one row in a schema of its own.
func newLedger(t *testing.T) (conf, *pgxpool.Pool) {
	t.Helper()
	pool, schema := testenv.Postgres(t)
	_, prefix := testenv.Redis(t)
	table := pgx.Identifier{schema, "accounts"}.Sanitize()
	_, err := pool.Exec(t.Context(), "CREATE TABLE "+table+" (id text PRIMARY KEY, units int NOT NULL)")
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "INSERT INTO "+table+" VALUES ($1, 0)", resource)
	require.NoError(t, err)
	return conf{
		Postgres: testenv.PostgresURL(t), Schema: schema, Redis: testenv.RedisURL(t), Prefix: prefix,
		Idle: 5 * time.Minute, // a busy machine is idle, too
	}, pool
}

// ledger counts units in a row. Each unit reads, computes, and writes the result.
type ledger struct {
	pool          *pgxpool.Pool
	fence         *sqlguard.Guard
	reads, writes string
	adds, marks   string
}

func ledgerOf(c conf, pool *pgxpool.Pool) *ledger {
	table := pgx.Identifier{c.Schema, "accounts"}.Sanitize()
	return &ledger{
		pool: pool, fence: &sqlguard.Guard{DB: pool, Schema: c.Schema, IdleTimeout: c.Idle},
		reads:  "SELECT units FROM " + table + " WHERE id = $1",
		marks:  "SELECT number, holder FROM " + pgx.Identifier{c.Schema, "marks"}.Sanitize() + " WHERE resource = $1",
		adds:   "UPDATE " + table + " SET units = units + 1 WHERE id = $1",
		writes: "UPDATE " + table + " SET units = $2 WHERE id = $1",
	}
}

func (l *ledger) Count(ctx context.Context) (units int, err error) {
	err = l.pool.QueryRow(ctx, l.reads, resource).Scan(&units)
	return units, err
}

// mark returns the guard's mark.
func (l *ledger) mark(ctx context.Context) (m guard.Mark, err error) {
	err = l.pool.QueryRow(ctx, l.marks, resource).Scan(&m.Number, &m.Holder)
	return m, err
}

// openPostgres claims, reads, computes, and writes behind the fence.
func openPostgres(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	c, l, s, end, err := servers(ctx, text)
	if err != nil {
		return s, nil, err
	}
	s.Claim, s.Mark, s.MaxBlocking = l.fence.Admit, l.mark, l.fence.IdleTimeout
	s.Do = func(ctx context.Context) error { return l.add(ctx, c.Work) }
	return s, end, nil
}

// openReentrant takes the lock itself, as programs do, and claims itself.
func openReentrant(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	_, l, s, end, err := servers(ctx, text)
	if err != nil {
		return s, nil, err
	}
	locks := &lock.Locker{Issuer: s.Issuer, Claim: l.fence.Admit}
	s.Do = func(ctx context.Context) error {
		return locks.Hold(ctx, resource, func(ctx context.Context) error { return l.add(ctx, 0) })
	}
	return s, end, nil
}

func (l *ledger) add(ctx context.Context, work time.Duration) error {
	units, err := l.Count(ctx)
	if err != nil {
		return err
	}
	time.Sleep(work)
	simulations.Failpoint(ctx, computed)
	return l.fence.Update(ctx, resource, func(tx pgx.Tx) error {
		simulations.Failpoint(ctx, "in the transaction")
		if _, err := tx.Exec(ctx, l.writes, resource, units+1); err != nil {
			return err
		}
		simulations.Failpoint(ctx, "written")
		return nil
	})
}

// openLockOnly has no guard, and relies on the lock.
func openLockOnly(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	_, l, s, end, err := servers(ctx, text)
	s.Do = func(ctx context.Context) error { return l.naive(ctx, nil) }
	s.Unguarded = s.Do
	return s, end, err
}

// openCheckThenWrite has its token admitted, and writes after that.
func openCheckThenWrite(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	_, l, s, end, err := servers(ctx, text)
	s.Do = func(ctx context.Context) error { return l.naive(ctx, l.fence) }
	s.Unguarded = func(ctx context.Context) error { return l.naive(ctx, nil) }
	return s, end, err
}

func (l *ledger) naive(ctx context.Context, fence guard.Store) error {
	units, err := l.Count(ctx)
	if err != nil {
		return err
	}
	if fence != nil {
		tok, err := token.FromContext(ctx, resource)
		if err != nil {
			return err
		}
		if err := fence.Admit(ctx, tok); err != nil {
			return err
		}
	}
	simulations.Failpoint(ctx, computed)
	simulations.Failpoint(ctx, "begin") // no tracer reports it
	_, err = l.pool.Exec(ctx, l.writes, resource, units+1)
	return err
}

// openTraced has the lock in the database of the rows, over a traced pool.
func openTraced(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	c, l, s, end, err := servers(ctx, text)
	if err != nil {
		return s, nil, err
	}
	config := l.pool.Config()
	config.ConnConfig.Tracer = pgxpoint.Tracer{}
	traced, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return s, nil, err
	}
	s.Issuer, s.Claim = &pgtoken.Issuer{DB: traced, Schema: c.Schema}, l.fence.Admit
	s.Do = func(ctx context.Context) error { return l.add(ctx, 0) }
	return s, func() error {
		traced.Close()
		return end()
	}, nil
}

// openFailing always fails.
func openFailing(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	_, _, s, end, err := servers(ctx, text)
	s.Do = func(context.Context) error { return context.DeadlineExceeded }
	return s, end, err
}

// openInTime writes before the step at which it is stopped, except for its twin.
func openInTime(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	_, l, s, end, err := servers(ctx, text)
	s.Do = func(ctx context.Context) error {
		defer simulations.Failpoint(ctx, computed)
		_, err := l.pool.Exec(ctx, l.adds, resource)
		return err
	}
	s.Unguarded = func(ctx context.Context) error { return l.naive(ctx, nil) }
	return s, end, err
}

// openNothing finds no server in the writers' processes.
func openNothing(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	if subprocess.Role() != "" {
		return simulations.Subject{}, nil, errors.New("no server at all")
	}
	return openPostgres(ctx, text)
}
