package etcdset_test

import (
	"context"
	_ "embed" // the statements
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// setup is a worker's configuration. The parent sends it, and later an empty message as
// the order to begin.
type setup struct {
	config
	Run   string // part of the name of each set
	Index int    // its values are Index, Index+Processes, Index+2·Processes …

	// For tests: the worker ends after this many additions in each way, and stops itself
	// in each. Zero: neither.
	Additions int
	Stand     step
}

// step is where a worker stops itself.
type step string

const (
	atWork  step = "work"  // after its read
	atWrite step = "write" // after its check, if it has one
)

// event is a worker's report: that an addition has begun, with the answer unknown, then
// its answer; or why an addition could not begin. The first event is empty and means that
// the worker is ready.
type event struct {
	Way     way    `json:",omitempty"`
	Value   int64  `json:",omitempty"`
	Answer  answer `json:",omitempty"`
	Trouble string `json:",omitempty"`
}

// answer is the answer that a worker got for an addition.
type answer string

const (
	acknowledged answer = "acknowledged"
	refused      answer = "refused" // as stale, or by the check
	failed       answer = "failed"  // for another reason, with nothing written
	unknown      answer = "unknown" // or no answer at all
)

// worker is one process. If the parent stops it, all ways stop.
type worker struct {
	setup
	*subprocess.Parent
	pool  *pgxpool.Pool
	redis *redis.Client
	fence *sqlguard.Guard
}

// serve runs a worker's process: it receives the setup and the order to begin, and works
// until the parent closes the input.
func serve(parent *subprocess.Parent) (err error) {
	w := &worker{Parent: parent}
	if err := w.Receive(&w.setup); err != nil {
		return err
	}
	ctx := context.Background()
	if w.redis, err = connectRedis(ctx, w.Redis); err != nil {
		return err
	}
	defer w.redis.Close()
	if w.pool, err = connectPostgres(ctx, w.Postgres, w.Schema); err != nil {
		return err
	}
	defer w.pool.Close()
	w.fence = &sqlguard.Guard{DB: w.pool, Schema: w.Schema, IdleTimeout: w.Idle}
	w.Report(event{})
	if err := w.Receive(&struct{}{}); err != nil {
		return err
	}
	ctx, cancel := w.UntilClosed(ctx)
	defer cancel()
	var all sync.WaitGroup
	for _, way := range w.Ways {
		a := &adder{worker: w, way: way, set: setName(w.Run, way)}
		a.random = rand.New(rand.NewPCG(w.Seed, uint64(w.Index))) // the same in each way
		a.locker = lock.Locker{
			Issuer: &redistoken.Issuer{Client: w.redis, Prefix: w.Prefix}, Name: fmt.Sprintf("worker-%d", w.Index),
			TTL: w.TTL, DangerouslyWithoutClaim: true,
		}
		if way.fenced() {
			a.locker.Claim = w.fence.Admit
		}
		all.Go(func() { a.addAll(ctx) })
	}
	all.Wait()
	return nil
}

// adder adds values to the set of one way, one after the other.
type adder struct {
	*worker
	way    way
	set    string // also the name of the lock and of the resource
	locker lock.Locker
	random *rand.Rand
}

// pace is a pause for a worker that cannot reach its servers.
const pace = 20 * time.Millisecond

// addAll adds one value after the other. An addition that could not begin is not counted:
// requests that were under way while the process was stopped have often timed out.
func (a *adder) addAll(ctx context.Context) {
	for n := 0; ctx.Err() == nil && (a.Additions == 0 || n < a.Additions); n++ {
		err := a.add(ctx, int64(a.Index+n*a.Processes))
		if err == nil || errors.Is(err, context.Canceled) {
			continue
		}
		a.Report(event{Way: a.way, Trouble: err.Error()})
		_ = sleep(ctx, pace)
	}
}

// add takes the lock and adds value. It returns an error if the addition could not begin.
// After the beginning, the end of ctx, which is the end of the run, does not end the
// addition.
func (a *adder) add(ctx context.Context, value int64) error {
	holding, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	begins := context.AfterFunc(ctx, cancel)
	held := false
	report := func(is answer) { a.Report(event{Way: a.way, Value: value, Answer: is}) }
	err := a.locker.Hold(holding, a.set, func(ctx context.Context) error {
		if held = begins(); !held {
			return ctx.Err()
		}
		report(unknown)
		report(outcome(a.try(ctx, value)))
		return nil
	})
	switch {
	case held: // the state of the lock after that does not matter
		return nil
	case guard.IsRefusal(err): // of the claim
		report(outcome(err))
		return nil
	}
	return err
}

// try is one addition under the lock. From here on, only the way watched checks its
// lease.
func (a *adder) try(ctx context.Context, value int64) error {
	tok, err := token.FromContext(ctx, a.set)
	if err != nil {
		return err
	}
	if a.way != watched {
		ctx = context.WithoutCancel(ctx)
	}
	switch a.way {
	case transaction:
		return a.fence.Update(ctx, a.set, func(tx pgx.Tx) error { return a.change(ctx, tok, value, tx, tx) })
	case fenceOnWrite, claimed:
		return a.change(ctx, tok, value, a.pool, a.fence.On(a.set))
	}
	return a.change(ctx, tok, value, a.pool, plain{a.pool})
}

func outcome(err error) answer {
	switch {
	case err == nil:
		return acknowledged
	case errors.Is(err, guard.ErrUnknown):
		return unknown
	case guard.IsRefusal(err):
		return refused
	}
	return failed
}

// change reads, works and writes.
func (a *adder) change(ctx context.Context, tok token.Token, value int64, from reader, to executor) error {
	s, err := readSet(ctx, from, a.set)
	if err != nil {
		return err
	}
	if err := a.stand(atWork); err != nil {
		return err
	}
	if err := sleep(ctx, time.Duration(a.random.Int64N(int64(a.Work)))); err != nil {
		return err
	}
	if a.way == checkThenWrite { // its only protection
		now, err := readSet(ctx, from, a.set)
		if err == nil {
			err = now.mark.Admits(tok)
		}
		if err != nil {
			return err
		}
	}
	if err := a.stand(atWrite); err != nil {
		return err
	}
	s.members, s.mark = append(s.members, value), guard.Mark{Number: tok.Number, Holder: tok.Holder}
	return s.write(ctx, to)
}

func (a *adder) stand(here step) error {
	if a.Stand != here {
		return nil
	}
	return subprocess.StopThread()
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var (
	//go:embed sql/create.sql
	createSQL string
	//go:embed sql/insert.sql
	insertSQL string
	//go:embed sql/select.sql
	selectSQL string
	//go:embed sql/update.sql
	updateSQL string
)

// set is a row: integers, and the mark that only check-then-write uses.
type set struct {
	name    string
	members []int64
	mark    guard.Mark
}

func setName(run string, way way) string { return "set/" + run + "/" + string(way) }

type reader interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func readSet(ctx context.Context, db reader, name string) (set, error) {
	s := set{name: name}
	err := db.QueryRow(ctx, selectSQL, name).Scan(&s.members, &s.mark.Number, &s.mark.Holder)
	if err != nil {
		return s, fmt.Errorf("etcdset: read %s: %w", name, err)
	}
	return s, nil
}

type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func (s set) write(ctx context.Context, db executor) error {
	tag, err := db.Exec(ctx, updateSQL, s.name, s.members, s.mark.Number, s.mark.Holder)
	if err == nil && tag.RowsAffected() != 1 {
		return errors.New("etcdset: no set " + s.name)
	}
	return err
}

// plain is a pool without a guard. Its errors have the outcomes of a guard's errors: if a
// statement was sent and not answered, the outcome is unknown.
type plain struct{ db executor }

func (p plain) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := context.Cause(ctx); err != nil {
		return pgconn.CommandTag{}, err // nothing was sent
	}
	tag, err := p.db.Exec(ctx, sql, args...)
	var fromServer *pgconn.PgError
	if err != nil && !errors.As(err, &fromServer) && !pgconn.SafeToRetry(err) {
		err = fmt.Errorf("%w: %w", guard.ErrUnknown, err)
	}
	return tag, err
}

// connections is enough for every way to have one connection, and to evict with another:
// no way waits for another's.
const connections = 10

func connectRedis(ctx context.Context, address string) (*redis.Client, error) {
	options, err := redis.ParseURL(address)
	var unparsed *url.Error
	switch {
	case errors.As(err, &unparsed): // the error would contain the password
		return nil, errors.New("etcdset: redis: not a URL")
	case err != nil:
		return nil, fmt.Errorf("etcdset: redis: %w", err)
	}
	// Otherwise a call would outlive its context by the client's own timeouts.
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	ctx, cancel := context.WithTimeout(ctx, hang)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		client.Close()
		return nil, fmt.Errorf("etcdset: redis at %s: %w", options.Addr, err)
	}
	return client, nil
}

func connectPostgres(ctx context.Context, address, schema string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("etcdset: postgres: %w", err) // pgx leaves out the password
	}
	config.MaxConns = connections
	config.ConnConfig.RuntimeParams["search_path"] = schema
	ctx, cancel := context.WithTimeout(ctx, hang)
	defer cancel()
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err == nil {
		if err = pool.Ping(ctx); err == nil {
			return pool, nil
		}
		pool.Close()
	}
	return nil, fmt.Errorf("etcdset: postgres: %w", err)
}
