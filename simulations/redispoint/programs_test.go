package redispoint_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token/redistoken"
)

const resource = "account/42"

// stock is a program that counts in Redis: it reads with GET, computes, and writes the
// result. Its lock, its guard and its reads have one client, which has a hook.
type stock struct {
	client, plain *redis.Client
	key, log      string
	fence         *redisguard.Guard
	issuer        *redistoken.Issuer
	locks         *lock.Locker
}

func openStock(t *testing.T) *stock {
	t.Helper()
	client, plain, prefix := clients(t)
	s := &stock{client: client, plain: plain, key: prefix + ":{account/42}:stock", log: prefix + ":{account/42}:log"}
	s.issuer = &redistoken.Issuer{Client: client, Prefix: prefix}
	s.fence = &redisguard.Guard{Client: client, MarkKey: func(resource string) string { return prefix + ":mark:{" + resource + "}" }}
	s.locks = &lock.Locker{Issuer: s.issuer, Claim: s.fence.Admit}
	return s
}

func (s *stock) subject(do func(context.Context) error) simulations.Subject {
	return simulations.Subject{
		Issuer: s.issuer, Resource: resource, Do: do, Holds: true, Count: s.read,
		Budget: 200 * time.Millisecond, Seed: 1,
	}
}

func (s *stock) read(ctx context.Context) (int, error) {
	n, err := s.client.Get(ctx, s.key).Int()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return n, err
}

// held returns a unit that reads the stock under the lock, and writes one more.
func (s *stock) held(write func(ctx context.Context, n int) error) func(context.Context) error {
	return func(ctx context.Context) error {
		return s.locks.Hold(ctx, resource, func(ctx context.Context) error {
			n, err := s.read(ctx)
			if err != nil {
				return err
			}
			return write(ctx, n+1)
		})
	}
}

func (s *stock) set(ctx context.Context, n int) error { return s.fence.Set(ctx, resource, s.key, n, 0) }

// Scripts for KEYS[1].
const (
	setTo     = "return redis.call('SET', KEYS[1], ARGV[1])"
	increment = "return redis.call('INCR', KEYS[1])"
)

func TestRightProgramsPass(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(s *stock) simulations.Subject{
		"GET and Set": func(s *stock) simulations.Subject { return s.subject(s.held(s.set)) },
		"an Eval of the guard, without Claim": func(s *stock) simulations.Subject {
			s.locks = &lock.Locker{Issuer: s.issuer, DangerouslyWithoutClaim: true}
			return s.subject(s.held(func(ctx context.Context, _ int) error {
				_, err := s.fence.Eval(ctx, resource, increment, []string{s.key})
				return err
			}))
		},
		"two Holds": func(s *stock) simulations.Subject {
			look := s.held(func(context.Context, int) error { return nil })
			write := s.held(s.set)
			return s.subject(func(ctx context.Context) error {
				if err := look(ctx); err != nil {
					return err
				}
				return write(ctx)
			})
		},
		"Once": func(s *stock) simulations.Subject {
			subject := s.subject(nil)
			subject.DoOnce = func(ctx context.Context, key string) error {
				return s.locks.Hold(ctx, resource, func(ctx context.Context) error {
					unit := guard.Unit{Key: key}
					_, err := s.fence.Once(ctx, resource, unit, increment, []string{s.key})
					return err
				})
			}
			return subject
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, simulations.Check(t, make(openStock(t))))
		})
	}
}

// A fence of the program's own is judged by what its script returns, and needs no guard.
func TestAFenceInAScriptOfTheProgramsOwnPasses(t *testing.T) {
	t.Parallel()
	const fenced = `
		if tonumber(redis.call('GET', KEYS[2]) or 0) > tonumber(ARGV[2]) then return 0 end
		redis.call('SET', KEYS[2], ARGV[2])
		redis.call('INCR', KEYS[1])
		return 1`
	s := openStock(t)
	subject := s.subject(func(ctx context.Context) error {
		tok, err := tokenOf(ctx)
		if err != nil {
			return err
		}
		applied, err := s.client.Eval(ctx, fenced, []string{s.key, s.log}, 0, tok.Number).Int()
		if err == nil && applied == 0 {
			err = &guard.StaleError{Token: tok}
		}
		return err
	})
	subject.Holds = false // Do works under the run's token
	subject.Unguarded = func(ctx context.Context) error {
		n, err := s.read(ctx)
		if err != nil {
			return err
		}
		return s.client.Set(ctx, s.key, n+1, 0).Err()
	}
	require.NoError(t, simulations.Check(t, subject))
}

// wrong are programs with one mistake each, and the first likely cause that the verdict must
// name.
var wrong = []struct {
	name, says string
	make       func(s *stock) func(context.Context) error
}{
	{"SET, without a guard", "no guard at all", func(s *stock) func(context.Context) error {
		return s.held(func(ctx context.Context, n int) error { return s.client.Set(ctx, s.key, n, 0).Err() })
	}},
	{"a script of its own, without a guard", "no guard at all", func(s *stock) func(context.Context) error {
		return s.held(func(ctx context.Context, n int) error {
			return s.client.Eval(ctx, setTo, []string{s.key}, n).Err()
		})
	}},
	{"INCR, without a guard", "no guard at all", func(s *stock) func(context.Context) error {
		return s.held(func(ctx context.Context, _ int) error { return s.client.Incr(ctx, s.key).Err() })
	}},
	{"Admit, then SET", "check, then write", func(s *stock) func(context.Context) error {
		return s.held(func(ctx context.Context, n int) error {
			tok, err := tokenOf(ctx)
			if err != nil {
				return err
			}
			if err := s.fence.Admit(ctx, tok); err != nil {
				return err
			}
			return s.client.Set(ctx, s.key, n, 0).Err()
		})
	}},
	{"a pipeline beside the guard", "only the first of two statements guarded", func(s *stock) func(context.Context) error {
		return s.held(func(ctx context.Context, n int) error {
			if err := s.fence.Set(ctx, resource, s.log, n, 0); err != nil {
				return err
			}
			_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error { p.Set(ctx, s.key, n, 0); return nil })
			return err
		})
	}},
	{"a MULTI beside the guard", "only the first of two statements guarded", func(s *stock) func(context.Context) error {
		return s.held(func(ctx context.Context, n int) error {
			if err := s.fence.Set(ctx, resource, s.log, n, 0); err != nil {
				return err
			}
			_, err := s.client.TxPipelined(ctx, func(p redis.Pipeliner) error { p.Set(ctx, s.key, n, 0); return nil })
			return err
		})
	}},
	{"a second key without the guard", "only the first of two statements guarded", func(s *stock) func(context.Context) error {
		return s.held(func(ctx context.Context, n int) error {
			if err := s.set(ctx, n); err != nil {
				return err
			}
			return s.client.RPush(ctx, s.log, n).Err()
		})
	}},
	{"another client without a hook", "a write over a connection without a tracer", func(s *stock) func(context.Context) error {
		return s.held(func(ctx context.Context, n int) error {
			if err := s.plain.Set(ctx, s.key, n, 0).Err(); err != nil {
				return err
			}
			return s.fence.Set(ctx, resource, s.log, n, 0)
		})
	}},
	{"a background context", "a write under another context", func(s *stock) func(context.Context) error {
		return s.held(func(ctx context.Context, n int) error {
			if err := s.fence.Set(ctx, resource, s.log, n, 0); err != nil {
				return err
			}
			return s.client.Set(context.Background(), s.key, n, 0).Err()
		})
	}},
	{"a retry after an unknown result", "retry after unknown", func(s *stock) func(context.Context) error {
		return func(ctx context.Context) error {
			return s.locks.Hold(ctx, resource, func(ctx context.Context) error {
				for {
					n, err := s.read(ctx)
					if err != nil {
						return err
					}
					if err := s.set(ctx, n+1); !errors.Is(err, guard.ErrUnknown) {
						return err
					}
				}
			})
		}
	}},
	{"an INCR that is retried", "retry after unknown", func(s *stock) func(context.Context) error {
		return s.held(func(ctx context.Context, _ int) error {
			tok, err := tokenOf(ctx)
			for err == nil {
				if err = s.fence.Admit(ctx, tok); err != nil {
					return err
				}
				if _, err := s.fence.Eval(ctx, resource, increment, []string{s.key}); !errors.Is(err, guard.ErrUnknown) {
					return err
				}
			}
			return err
		})
	}},
	{"an unknown taken for a success", "unknown taken for an answer", func(s *stock) func(context.Context) error {
		return s.held(func(ctx context.Context, n int) error {
			if err := s.set(ctx, n); !errors.Is(err, guard.ErrUnknown) {
				return err
			}
			return nil
		})
	}},
	{"a stale value written again", "a stale value written again", func(s *stock) func(context.Context) error {
		return func(ctx context.Context) error {
			n, err := s.read(ctx)
			if err != nil {
				return err
			}
			for {
				err := s.locks.Hold(ctx, resource, func(ctx context.Context) error { return s.set(ctx, n+1) })
				if !errors.Is(err, guard.ErrStale) {
					return err
				}
			}
		}
	}},
	{"a write after Hold", "a write after Hold", func(s *stock) func(context.Context) error {
		return func(ctx context.Context) error {
			var next int
			err := s.held(func(ctx context.Context, n int) error { next = n; return s.fence.Set(ctx, resource, s.log, n, 0) })(ctx)
			if err != nil {
				return err
			}
			return s.client.Set(ctx, s.key, next, 0).Err()
		}
	}},
}

func TestWrongProgramsAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range wrong {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := openStock(t)
			err := simulations.Check(t, s.subject(c.make(s)))
			t.Log(err)
			var verdict *simulations.Verdict
			require.ErrorAs(t, err, &verdict)
			require.False(t, verdict.Vacuous())
			require.NotEmpty(t, verdict.LikelyCauses)
			require.Contains(t, verdict.LikelyCauses[0], c.says)
		})
	}
}
