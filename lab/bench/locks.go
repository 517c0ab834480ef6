package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

var redisContests = []contest{
	{
		name: "Redis lock", server: redisServer, settings: every,
		baseline: contender{"SET NX PX, compare-and-delete", each(pair(rawLock))},
		others: []contender{
			{"Acquire, Release", each(pair(issued(openRedistoken)))},
			{"the same through an AutoPipeliner", each(pair(issued(openPipelined)))},
			{"Locker.Hold", each(hold(openRedistoken))},
			{"redislock", each(pair(openRedislock))},
			{"redsync", each(pair(openRedsync))},
			{"rueidislock", each(pair(openRueidislock))},
		},
	},
	{
		name: "refused", server: redisServer, settings: []setting{linked1, direct1},
		baseline: contender{"refused SET NX", each(refused(rawLock))},
		others: []contender{
			{"Acquire", each(refused(issued(openRedistoken)))},
			{"redislock", each(refused(openRedislock))},
			{"redsync", each(refused(openRedsync))},
			{"rueidislock", each(refused(openRueidislock))},
		},
	},
	{
		name: "Redis write", server: redisServer, settings: every,
		baseline: contender{"SET", each(func(_ context.Context, c *client) op {
			client := c.redis()
			return func(ctx context.Context, worker int) error {
				return client.Set(ctx, "plain:"+resource(worker), "100", 0).Err()
			}
		})},
		others: []contender{{"redisguard Set", each(func(_ context.Context, c *client) op {
			guard := &redisguard.Guard{Client: c.redis()}
			return func(ctx context.Context, worker int) error {
				name := resource(worker)
				return guard.Set(token.NewContext(ctx, current(name)), name, "guarded:"+name, "100", 0)
			}
		})}},
	},
}

var pglockContests = []contest{{
	name: "PostgreSQL lock", server: postgresServer, settings: every,
	baseline: contender{"two durable updates", each(writes(func(ctx context.Context, d *database, worker int) error {
		if err := update(ctx, d, worker); err != nil {
			return err
		}
		return update(ctx, d, worker)
	}))},
	others: []contender{
		{"pgtoken Acquire, Release", each(pair(issued(openPgtoken(false))))},
		{"the same, claimed", each(pair(issued(openPgtoken(true))))},
		{"Locker.Hold on pgtoken", each(hold(openPgtoken(false)))},
	},
}}

// Other libraries have the settings with which their own documentation begins. Two are
// changed: the TTL, which is the same for all, and limits on the number of tries, which
// would end a wait. redislock does not wait by default, and pauses here between two tries.
const (
	ttl     = time.Minute
	backoff = 5 * time.Millisecond
)

// newHolder returns a holder as long as a Locker's.
func newHolder() string { return fmt.Sprintf("bench:4711:1:%016x", rand.Uint64()) }

type (
	// acquire acquires a resource. It waits if waits is set, and otherwise returns errHeld
	// if another holder has the resource.
	acquire func(ctx context.Context, resource string, waits bool) (unlock, error)
	unlock  func(ctx context.Context) error

	library func(ctx context.Context, c *client) acquire
	issuer  func(ctx context.Context, c *client) token.Issuer
)

// pair acquires and releases the worker's resource.
func pair(open library) setup {
	return func(ctx context.Context, c *client) op {
		acquire := open(ctx, c)
		return func(ctx context.Context, worker int) error {
			release, err := acquire(ctx, resource(worker), true)
			if err != nil {
				return err
			}
			return release(ctx)
		}
	}
}

// hold holds the worker's resource with an empty function.
func hold(open issuer) setup {
	return func(ctx context.Context, c *client) op {
		locker := &lock.Locker{Issuer: open(ctx, c), Name: "bench", TTL: ttl, DangerouslyWithoutClaim: true}
		return func(ctx context.Context, worker int) error {
			return locker.Hold(ctx, resource(worker), func(context.Context) error { return nil })
		}
	}
}

// refused tries to acquire a resource that another client of the same library has.
func refused(open library) setup {
	return func(ctx context.Context, c *client) op {
		const resource = "account/1"
		acquire := open(ctx, c)
		release, err := open(ctx, c)(ctx, resource, false)
		if !errors.Is(err, errHeld) { // by another contender
			check(err)
			c.later(func() error { return release(ctx) })
		}
		return func(ctx context.Context, _ int) error {
			if _, err := acquire(ctx, resource, false); !errors.Is(err, errHeld) {
				return errors.Join(errors.New("not refused"), err)
			}
			return nil
		}
	}
}

var errHeld = errors.New("held by another holder")

// held returns errHeld if err is theirs, and otherwise err.
func held(err, theirs error) error {
	if errors.Is(err, theirs) {
		return errHeld
	}
	return err
}

// issued uses an issuer without a Locker.
func issued(open issuer) library {
	return func(ctx context.Context, c *client) acquire {
		iss, holder := open(ctx, c), newHolder()
		return func(ctx context.Context, resource string, _ bool) (unlock, error) {
			grant, err := iss.Acquire(ctx, resource, holder, ttl)
			return func(ctx context.Context) error { return iss.Release(ctx, grant.Token) }, held(err, token.ErrHeld)
		}
	}
}

// leased uses a Locker that waits, and does not use its tokens.
func leased(open issuer) library {
	return func(ctx context.Context, c *client) acquire {
		locker := lock.Locker{Issuer: open(ctx, c), Name: "bench", TTL: ttl, DangerouslyWithoutClaim: true}
		return func(ctx context.Context, resource string, _ bool) (unlock, error) {
			lease, err := locker.Acquire(ctx, resource)
			if err != nil {
				return nil, err
			}
			return lease.Release, nil
		}
	}
}

func openRedistoken(_ context.Context, c *client) token.Issuer {
	iss := &redistoken.Issuer{Client: c.redis()}
	c.later(iss.Close)
	return iss
}

// openPipelined opens an issuer whose commands go-redis sends together.
func openPipelined(_ context.Context, c *client) token.Issuer {
	pipeliner := must(c.redis().AutoPipeline())
	c.later(pipeliner.Close)
	iss := &redistoken.Issuer{Client: pipeliner}
	c.later(iss.Close)
	return iss
}

// openPgtoken opens an issuer that claims or not: it raises the mark in the statement that
// grants. It has two more connections, for notifications.
func openPgtoken(claims bool) issuer {
	return func(ctx context.Context, c *client) token.Issuer {
		iss := &pgtoken.Issuer{DB: c.postgres(ctx, 2), Claims: claims}
		c.later(iss.Close)
		return iss
	}
}

// rawLock is the simplest lock, without a token: SET NX PX, and a script that deletes the
// key of its holder. It does not wait.
func rawLock(_ context.Context, c *client) acquire {
	client, holder := c.redis(), newHolder()
	return func(ctx context.Context, resource string, _ bool) (unlock, error) {
		ok, err := client.SetNX(ctx, "raw:"+resource, holder, ttl).Result()
		if err == nil && !ok {
			err = errHeld
		}
		return func(ctx context.Context) error {
			n, err := deleteOwn.Run(ctx, client, []string{"raw:" + resource}, holder).Int()
			if err == nil && n != 1 {
				err = errHeld
			}
			return err
		}, err
	}
}

var deleteOwn = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)

// openRedislock is github.com/bsm/redislock.
func openRedislock(_ context.Context, c *client) acquire {
	locker := redislock.New(c.redis())
	return func(ctx context.Context, resource string, waits bool) (unlock, error) {
		var options redislock.Options
		if waits {
			options.RetryStrategy = redislock.LinearBackoff(backoff)
		}
		l, err := locker.Obtain(ctx, "redislock:"+resource, ttl, &options)
		if err != nil {
			return nil, held(err, redislock.ErrNotObtained)
		}
		return l.Release, nil
	}
}

// openRedsync is github.com/go-redsync/redsync on one server.
func openRedsync(_ context.Context, c *client) acquire {
	sync := redsync.New(goredis.NewPool(c.redis()))
	return func(ctx context.Context, resource string, waits bool) (unlock, error) {
		m := sync.NewMutex("redsync:"+resource, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt))
		lock := m.TryLockContext
		if waits {
			lock = m.LockContext
		}
		err := lock(ctx)
		if taken := new(redsync.ErrTaken); errors.As(err, &taken) {
			err = errHeld
		}
		return func(ctx context.Context) error {
			ok, err := m.UnlockContext(ctx)
			if !ok {
				err = errors.Join(errHeld, err)
			}
			return err
		}, err
	}
}

// openRueidislock is github.com/redis/rueidis/rueidislock with one key for each resource,
// which is enough on one server. It has a client of its own.
func openRueidislock(_ context.Context, c *client) acquire {
	option := must(rueidis.ParseURL(c.routed(c.server.url)))
	option.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return c.dial(ctx, "tcp", addr)
	}
	locker := must(rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: option, KeyValidity: ttl, KeyMajority: 1, TryNextAfter: ttl}))
	c.later(func() error { locker.Close(); return nil })
	return func(ctx context.Context, resource string, waits bool) (unlock, error) {
		lock := locker.TryWithContext
		if waits {
			lock = locker.WithContext
		}
		_, cancel, err := lock(ctx, resource)
		return func(context.Context) error { cancel(); return nil }, held(err, rueidislock.ErrNotLocked) // it reports no errors
	}
}
