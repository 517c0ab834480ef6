package main

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// Other libraries have the settings with which their own documentation begins. Two are
// changed: the TTL, which is the same for all, and limits on the number of tries, which
// would end a wait.
const (
	ttl = time.Minute
	// backoff is how long redislock pauses between two tries: by default it does not
	// wait.
	backoff = 5 * time.Millisecond
	// holder is as long as a Locker's.
	holder = "bench:4711:1:c2f1a9035be17d64"
)

// unlock releases a resource.
type unlock func(ctx context.Context) error

// locking is one library, or one way to use a library.
type locking struct {
	// wait waits until it has the resource.
	wait func(ctx context.Context, resource string) (unlock, error)
	// try returns errHeld if another holder has the resource. It does not wait.
	try func(ctx context.Context, resource string) (unlock, error)
}

// library opens a locking in a program that uses the servers through c. It must be called
// inside [opening], and so must issuer.
type library func(ctx context.Context, c *client) locking

type issuer func(ctx context.Context, c *client) token.Issuer

var errHeld = errors.New("held by another holder")

// isHeld adds errHeld to an error that means the same.
func isHeld(err, theirs error) error {
	if errors.Is(err, theirs) {
		return errors.Join(errHeld, err)
	}
	return err
}

// issued uses an issuer without a Locker.
func issued(iss token.Issuer) locking {
	try := func(ctx context.Context, resource string) (unlock, error) {
		grant, err := iss.Acquire(ctx, resource, holder, ttl)
		if err != nil {
			return nil, isHeld(err, token.ErrHeld)
		}
		return func(ctx context.Context) error { return iss.Release(ctx, grant.Token) }, nil
	}
	return locking{wait: try, try: try}
}

// leased uses a Locker and does not use its tokens.
func leased(iss token.Issuer) locking {
	with := func(noWait bool) func(ctx context.Context, resource string) (unlock, error) {
		l := &lock.Locker{Issuer: iss, Name: "bench", TTL: ttl, NoWait: noWait, DangerouslyWithoutClaim: true}
		return func(ctx context.Context, resource string) (unlock, error) {
			lease, err := l.Acquire(ctx, resource)
			if err != nil {
				return nil, isHeld(err, token.ErrHeld)
			}
			return lease.Release, nil
		}
	}
	return locking{wait: with(false), try: with(true)}
}

func openRedistoken(_ context.Context, c *client) token.Issuer {
	iss := &redistoken.Issuer{Client: c.redis()}
	c.later(iss.Close)
	return iss
}

func openPgtoken(ctx context.Context, c *client) token.Issuer { return pgtokenOf(ctx, c, false) }

func openClaiming(ctx context.Context, c *client) token.Issuer { return pgtokenOf(ctx, c, true) }

// pgtokenOf has more connections than workers, for notifications.
func pgtokenOf(ctx context.Context, c *client, claims bool) token.Issuer {
	iss := &pgtoken.Issuer{DB: c.postgres(ctx, lockDatabase, c.workers+2), Claims: claims}
	c.later(iss.Close)
	return iss
}

// of makes a library from one of our issuers.
func of(open issuer, with func(token.Issuer) locking) library {
	return func(ctx context.Context, c *client) locking { return with(open(ctx, c)) }
}

// openRedislock is github.com/bsm/redislock.
func openRedislock(_ context.Context, c *client) locking {
	locker := redislock.New(c.redis())
	obtain := func(ctx context.Context, resource string, options *redislock.Options) (unlock, error) {
		l, err := locker.Obtain(ctx, "redislock:"+resource, ttl, options)
		if err != nil {
			return nil, isHeld(err, redislock.ErrNotObtained)
		}
		return l.Release, nil
	}
	return locking{
		wait: func(ctx context.Context, resource string) (unlock, error) {
			return obtain(ctx, resource, &redislock.Options{RetryStrategy: redislock.LinearBackoff(backoff)})
		},
		try: func(ctx context.Context, resource string) (unlock, error) { return obtain(ctx, resource, nil) },
	}
}

// openRedsync is github.com/go-redsync/redsync on one server.
func openRedsync(_ context.Context, c *client) locking {
	sync := redsync.New(goredis.NewPool(c.redis()))
	mutex := func(resource string) (*redsync.Mutex, unlock) {
		m := sync.NewMutex("redsync:"+resource, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt))
		return m, func(ctx context.Context) error {
			ok, err := m.UnlockContext(ctx)
			if err == nil && !ok {
				err = errors.New("redsync: the lock was not held")
			}
			return err
		}
	}
	return locking{
		wait: func(ctx context.Context, resource string) (unlock, error) {
			m, release := mutex(resource)
			return release, m.LockContext(ctx)
		},
		try: func(ctx context.Context, resource string) (unlock, error) {
			m, release := mutex(resource)
			err := m.TryLockContext(ctx)
			if taken := new(redsync.ErrTaken); errors.As(err, &taken) {
				err = errors.Join(errHeld, err)
			}
			return release, err
		},
	}
}

// openRueidislock is github.com/redis/rueidis/rueidislock with one key for each resource,
// which is enough on one server. It has a client of its own.
func openRueidislock(_ context.Context, c *client) locking {
	option := must(rueidis.ParseURL(c.redisURL()))
	option.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return c.sent.dial(ctx, "tcp", addr)
	}
	locker := must(rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: option, KeyValidity: ttl, KeyMajority: 1, TryNextAfter: ttl}))
	c.closers = append(c.closers, locker.Close)
	release := func(cancel context.CancelFunc) unlock {
		return func(context.Context) error { cancel(); return nil } // it reports no errors
	}
	return locking{
		wait: func(ctx context.Context, resource string) (unlock, error) {
			_, cancel, err := locker.WithContext(ctx, resource)
			return release(cancel), err
		},
		try: func(ctx context.Context, resource string) (unlock, error) {
			_, cancel, err := locker.TryWithContext(ctx, resource)
			return release(cancel), isHeld(err, rueidislock.ErrNotLocked)
		},
	}
}

// openScripts sends what redistoken sends, without redistoken: one call of the client for
// each command. The difference is the cost of redistoken in the client.
func openScripts(ctx context.Context, c *client) locking {
	iss, plain := &redistoken.Issuer{Client: c.redis()}, c.redis()
	c.later(iss.Close)
	check(iss.Release(ctx, must(iss.Acquire(ctx, "scripts", holder, ttl)).Token)) // the server has the scripts
	var last lastScript
	iss.Client.AddHook(&last)
	type scripts struct{ acquire, release []any }
	var mu sync.Mutex
	known := map[string]scripts{}
	record := func(ctx context.Context, resource string) (scripts, error) {
		mu.Lock()
		defer mu.Unlock()
		if s, ok := known[resource]; ok {
			return s, nil
		}
		grant, err := iss.Acquire(ctx, resource, holder, ttl)
		if err != nil {
			return scripts{}, err
		}
		s := scripts{acquire: last}
		if err := iss.Release(ctx, grant.Token); err != nil {
			return scripts{}, err
		}
		s.release = last
		known[resource] = s
		return s, nil
	}
	wait := func(ctx context.Context, resource string) (unlock, error) {
		s, err := record(ctx, resource)
		if err != nil {
			return nil, err
		}
		if err := plain.Do(ctx, s.acquire...).Err(); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			n, err := plain.Do(ctx, s.release...).Int64()
			if err == nil && n != 1 {
				err = errors.New("release: held by another holder")
			}
			return err
		}, nil
	}
	return locking{wait: wait}
}

// lastScript is a hook of a client that keeps the last command.
type lastScript []any

func (*lastScript) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *lastScript) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		*l = cmd.Args()
		return next(ctx, cmd)
	}
}

func (*lastScript) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// rawLock is the simplest lock, without a token: SET NX PX, and a script that deletes the
// key of its holder.
func rawLock(_ context.Context, c *client) locking {
	client := c.redis()
	try := func(ctx context.Context, resource string) (unlock, error) {
		key := "raw:" + resource
		ok, err := client.SetNX(ctx, key, holder, ttl).Result()
		if err == nil && !ok {
			err = errHeld
		}
		return func(ctx context.Context) error {
			n, err := deleteOwn.Run(ctx, client, []string{key}, holder).Int()
			if err == nil && n != 1 {
				err = errors.New("raw: held by another holder")
			}
			return err
		}, err
	}
	return locking{wait: try, try: try}
}

var deleteOwn = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)
