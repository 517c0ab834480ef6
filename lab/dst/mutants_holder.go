package dst

import (
	"errors"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/token"
)

var holderMutants = []mistake{
	{"fence on the write only", func(l *decisions) { l.claim = (*hold).work }},
	{"claim after the read", func(l *decisions) {
		l.claim = (*hold).work
		l.look = func(u *task) {
			u.ask(&request{resource: u.resource, tok: u.tok}, &replyFunc[reply]{func(r reply) {
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
	{"token is looked up at the time of the write", func(l *decisions) {
		l.look = func(u *task) {
			s := u.server()
			call(u.process, &s.node, replyTimeout, &callFunc[token.Token]{func(answer func(token.Token)) {
				answer(s.locks[u.resource].Grant.Token)
			}, replyFunc[token.Token]{func(tok token.Token) {
				u.tok = tok // the successor's
				u.try()
			}, func() { u.end(history.Failed) }}})
		}
	}},
	{"late hand-over is given back", func(l *decisions) {
		l.late = func(a *acquisition, g granted) {
			s := a.server()
			notify(a.process, &s.node, func() {
				_ = s.locks[a.resource].Release(g.grant.Token.Holder, s.clock())
				s.serve(a.resource)
			})
		}
	}},
	{"lock is asked instead of the mark", func(l *decisions) {
		l.admit = func(*store, int, token.Token) error { return nil }
		l.look = func(u *task) {
			s := u.server()
			call(u.process, &s.node, replyTimeout, &callFunc[error]{func(answer func(error)) {
				_, err := s.locks[u.resource].Renew(u.holder, ttl, s.clock())
				answer(err)
			}, replyFunc[error]{func(err error) {
				if err == nil {
					u.try()
				} else {
					u.end(history.Failed)
				}
			}, func() { u.end(history.Failed) }}})
		}
	}},
	{"lease counts from the answer", func(l *decisions) {
		l.until = func(_, received time.Duration) time.Duration { return received + ttl }
	}},
	{"unheard write is taken for not applied", func(l *decisions) {
		l.noReply = func(u *task) {
			u.w.end(u.op, history.Failed)
			u.leave()
		}
	}},
	{"refused write is sent with the mark's number", func(l *decisions) {
		l.refused = func(u *task, stale *guard.StaleError) {
			if u.tok.Number = stale.Mark.Number + 1; u.tries == tries {
				u.end(history.Refused)
				return
			}
			u.try()
		}
	}},
	{"recovered holder goes on with what it had read", func(l *decisions) {
		seen := map[*process]row{}
		l.refused = func(u *task, stale *guard.StaleError) {
			u.finish(history.Refused)
			u.tryRecovery(stale, func(recovered bool) {
				if recovered {
					seen[u.process] = u.seen
				}
				u.again(recovered)
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
	{"holder never suspects the lock", func(l *decisions) {
		l.mayHaveForgotten = func(int64, int64, bool) bool { return false }
	}},
}
