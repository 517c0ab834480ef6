package kernel

import (
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

var holderMutants = []mistake{
	{"fence on the write only", func(l *laws) { l.claim = (*hold).work }},
	{"claim after the read", func(l *laws) {
		l.claim = (*hold).work
		l.look = func(u *task) {
			u.ask(&request{resource: u.resource, tok: u.tok}, func(r reply) {
				if r.err == nil {
					u.try()
				} else {
					u.end(history.Failed)
				}
			}, func() { u.end(history.Failed) })
		}
	}},
	{"lock is asked instead of the mark", func(l *laws) {
		l.admit = func(*store, int, token.Token) error { return nil }
		l.look = func(u *task) {
			s := u.server()
			call(u.process, &s.node, patience, func(answer func(error)) {
				_, err := s.locks[u.resource].Renew(u.holder, ttl, s.clock())
				answer(err)
			}, func(err error) {
				if err == nil {
					u.try()
				} else {
					u.end(history.Failed)
				}
			}, func() { u.end(history.Failed) })
		}
	}},
	{"lease counts from the answer", func(l *laws) {
		l.until = func(_, heard time.Duration) time.Duration { return heard + ttl }
	}},
	{"unheard write is taken for refused", func(l *laws) {
		l.unheard = func(u *task) {
			u.w.end(u.op, history.Refused)
			u.leave()
		}
	}},
	{"refused write is sent with the mark's number", func(l *laws) {
		l.refused = func(u *task, stale *guard.StaleError) {
			if u.tok.Number = stale.Mark.Number + 1; u.tries == tries {
				u.end(history.Refused)
				return
			}
			u.try()
		}
	}},
	{"healed holder runs its work again", func(l *laws) {
		seen := map[*process]row{}
		l.refused = func(u *task, stale *guard.StaleError) {
			u.heal(stale, func(bool) { seen[u.process] = u.seen; u.again(true) })
		}
		l.read = func(u *task) {
			old, again := seen[u.process]
			if !again {
				u.read()
				return
			}
			delete(seen, u.process)
			u.seen = old
			u.try()
		}
	}},
	{"holder never suspects the lock", func(l *laws) {
		l.suspects = func(int64, int64, bool) bool { return false }
	}},
}
