package kernel

import (
	"errors"
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
			u.ask(&request{resource: u.resource, tok: u.tok}, &tells[reply]{func(r reply) {
				stale, refused := errors.AsType[*guard.StaleError](r.err)
				switch {
				case refused:
					u.refused(stale)
				case r.err != nil:
					u.end(history.Failed)
				default:
					u.try()
				}
			}, func() { u.end(history.Failed) }})
		}
	}},
	{"token is looked up at the time of the write", func(l *laws) {
		l.look = func(u *task) {
			s := u.server()
			call(u.process, &s.node, patience, &asks[token.Token]{func(answer func(token.Token)) {
				answer(s.locks[u.resource].Grant.Token)
			}, tells[token.Token]{func(tok token.Token) {
				u.tok = tok // the successor's
				u.try()
			}, func() { u.end(history.Failed) }}})
		}
	}},
	{"late hand-over is given back", func(l *laws) {
		l.late = func(a *wish, g granted) {
			s := a.server()
			tell(a.process, &s.node, func() {
				_ = s.locks[a.resource].Release(g.grant.Token.Holder, s.clock())
				s.serve(a.resource)
			})
		}
	}},
	{"lock is asked instead of the mark", func(l *laws) {
		l.admit = func(*store, int, token.Token) error { return nil }
		l.look = func(u *task) {
			s := u.server()
			call(u.process, &s.node, patience, &asks[error]{func(answer func(error)) {
				_, err := s.locks[u.resource].Renew(u.holder, ttl, s.clock())
				answer(err)
			}, tells[error]{func(err error) {
				if err == nil {
					u.try()
				} else {
					u.end(history.Failed)
				}
			}, func() { u.end(history.Failed) }}})
		}
	}},
	{"lease counts from the answer", func(l *laws) {
		l.until = func(_, heard time.Duration) time.Duration { return heard + ttl }
	}},
	{"unheard write is taken for not applied", func(l *laws) {
		l.unheard = func(u *task) {
			u.w.end(u.op, history.Failed)
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
	{"healed holder goes on with what it had read", func(l *laws) {
		seen := map[*process]row{}
		l.refused = func(u *task, stale *guard.StaleError) {
			u.finish(history.Refused)
			u.heal(stale, func(healed bool) {
				if healed {
					seen[u.process] = u.seen
				}
				u.again(healed)
			})
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
