package dst

import (
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/lockstate"
	"github.com/fencepost/fencepost/token"
)

var lockMutants = []mistake{
	{"number before the lock", func(l *decisions) {
		drawn := map[string]int64{}
		l.acquire = func(k *lockstate.Lock, holder string, ttl time.Duration, now time.Time) (token.Grant, error) {
			if drawn[holder] == 0 {
				k.Number = max(k.Number+1, lockstate.Clock(now))
				drawn[holder] = k.Number
			}
			return k.Acquire(holder, ttl, now)
		}
		l.number = func(_ *lockstate.Lock, g token.Grant, _ time.Time) int64 { return drawn[g.Token.Holder] }
	}},
	{"number is the clock", func(l *decisions) {
		l.number = func(_ *lockstate.Lock, _ token.Grant, now time.Time) int64 { return lockstate.Clock(now) }
	}},
	{"number is shortened", func(l *decisions) {
		l.number = func(_ *lockstate.Lock, g token.Grant, _ time.Time) int64 { return g.Token.Number / 1000 * 1000 }
	}},
	{"number ends with the lease", func(l *decisions) {
		count := map[*lockstate.Lock]int64{}
		l.number = func(k *lockstate.Lock, _ token.Grant, _ time.Time) int64 { count[k]++; return count[k] }
		l.release = func(k *lockstate.Lock, holder string, now time.Time) error {
			count[k] = 0
			return k.Release(holder, now)
		}
	}},
	{"numbers are drawn in blocks", func(l *decisions) {
		next := map[byte]int64{} // by session
		l.number = func(k *lockstate.Lock, g token.Grant, _ time.Time) int64 {
			who := g.Token.Holder[0]
			if next[who]++; next[who]%10 <= 1 {
				k.Number += 20 - k.Number%10
				next[who] = k.Number - 9
			}
			return next[who]
		}
	}},
	{"held lock is granted", func(l *decisions) {
		l.acquire = func(k *lockstate.Lock, holder string, ttl time.Duration, now time.Time) (token.Grant, error) {
			k.Grant.Until = time.Time{}
			return k.Acquire(holder, ttl, now)
		}
	}},
	{"grant is answered again after its end", func(l *decisions) {
		given := map[string]token.Grant{}
		l.acquire = func(k *lockstate.Lock, holder string, ttl time.Duration, now time.Time) (token.Grant, error) {
			if g, again := given[holder]; again {
				return g, nil
			}
			g, err := k.Acquire(holder, ttl, now)
			if err == nil {
				given[holder] = g
			}
			return g, err
		}
	}},
	{"ttl computed before the wait", func(l *decisions) {
		l.join = func(k *lockstate.Lock, w *lockstate.Waiter, now time.Time) {
			served, until := w.Served, now.Add(w.TTL)
			w.Served = func(g token.Grant, err error) { k.Grant.Until = until; served(g, err) }
			k.Join(w, now)
		}
	}},
	{"waiter is told of a lock that is not set", func(l *decisions) {
		l.join = func(k *lockstate.Lock, w *lockstate.Waiter, now time.Time) {
			served := w.Served
			w.Served = func(g token.Grant, err error) { k.Grant.Until = time.Time{}; served(g, err) }
			k.Join(w, now)
		}
	}},
	{"renew acquires", func(l *decisions) {
		l.renew = func(k *lockstate.Lock, holder string, ttl time.Duration, now time.Time) (time.Time, error) {
			g, err := k.Acquire(holder, ttl, now)
			return g.Until, err
		}
	}},
	{"renew without owner check", func(l *decisions) {
		l.renew = func(k *lockstate.Lock, _ string, ttl time.Duration, now time.Time) (time.Time, error) {
			return k.Renew(k.Grant.Token.Holder, ttl, now)
		}
	}},
	{"release without owner check", func(l *decisions) {
		l.release = func(k *lockstate.Lock, _ string, now time.Time) error { return k.Release(k.Grant.Token.Holder, now) }
	}},
	{"release compares the beginning of the holder", func(l *decisions) {
		l.release = func(k *lockstate.Lock, holder string, now time.Time) error {
			if name, _, _ := strings.Cut(holder, "-"); strings.HasPrefix(k.Grant.Token.Holder, name) {
				holder = k.Grant.Token.Holder
			}
			return k.Release(holder, now)
		}
	}},
	{"lock forgotten in a restart", func(l *decisions) { l.afterLockRestart = (*server).forget }},
	{"recovery does nothing", func(l *decisions) {
		l.recoverLock = func(*lockstate.Lock, int64, time.Time) error { return nil }
	}},
}
