package dst

import (
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/internal/lockstate"
	"github.com/fencepost/fencepost/internal/schedule"
	"github.com/fencepost/fencepost/token"
)

// decisions are the functions that decide in a run. A mutant replaces one of them.
type decisions struct {
	// Decisions of the lock.
	acquire          func(l *lockstate.Lock, holder string, ttl time.Duration, now time.Time) (token.Grant, error)
	number           func(l *lockstate.Lock, g token.Grant, now time.Time) int64 // sent with a grant
	join             func(l *lockstate.Lock, w *lockstate.Waiter, now time.Time)
	renew            func(l *lockstate.Lock, holder string, ttl time.Duration, now time.Time) (time.Time, error)
	release          func(l *lockstate.Lock, holder string, now time.Time) error
	recoverLock      func(l *lockstate.Lock, number int64, now time.Time) error
	afterLockRestart func(s *server) // after a restart

	// Decisions of the holder.
	until            func(sent, received time.Duration) time.Duration // the end of a lease that was granted
	late             func(a *acquisition, g granted)                  // after a grant that it no longer waits for
	claim            func(h *hold)                                    // before it works
	read             func(u *task)                                    // before it thinks
	look             func(u *task)                                    // before it writes
	refused          func(u *task, stale *guard.StaleError)           // after a write was refused
	noReply          func(u *task)                                    // after a write without an answer
	mayHaveForgotten func(number, mark int64, lost bool) bool

	// Decisions of the guard.
	raised            func(mark guard.Mark, tok token.Token) (guard.Mark, error)
	admit             func(s *store, resource int, tok token.Token) error
	write             func(s *store, q *request, answer func(reply))
	apply             func(s *store, q *request) reply
	prune             func(s *store, cutoff int64)
	afterStoreRestart func(s *store) // after a restart

	// Decisions of the service.
	verify           func(keyring *signature.Keyring, signed signature.Signed) error
	serve            func(v *serviceRequest)
	cancel           func(older *serviceRequest)                 // after a newer token has arrived
	timedOut         func(v *serviceRequest)                     // which has waited too long
	marksUnreachable func(v *serviceRequest)                     // if the marks cannot be reached
	pass             func(r reply, sent int, answer func(reply)) // of the proxy
}

// production has the decisions of the production code.
var production decisions

func init() { // a declaration with these values would be an initialization cycle
	production = decisions{
		acquire:           (*lockstate.Lock).Acquire,
		number:            func(_ *lockstate.Lock, g token.Grant, _ time.Time) int64 { return g.Token.Number },
		join:              (*lockstate.Lock).Join,
		renew:             (*lockstate.Lock).Renew,
		release:           (*lockstate.Lock).Release,
		recoverLock:       (*lockstate.Lock).Recover,
		afterLockRestart:  func(*server) {},
		until:             func(sent, _ time.Duration) time.Duration { return sent + ttl },
		late:              func(*acquisition, granted) {},
		claim:             (*hold).claim,
		read:              (*task).read,
		look:              (*task).look,
		refused:           (*task).refused,
		noReply:           (*task).noReply,
		mayHaveForgotten:  schedule.MayHaveForgotten,
		raised:            guard.Mark.Raised,
		admit:             (*store).admit,
		write:             (*store).write,
		apply:             (*store).apply,
		prune:             (*store).prune,
		afterStoreRestart: func(*store) {},
		verify:            func(r *signature.Keyring, s signature.Signed) error { return r.Verify(s) },
		serve:             (*serviceRequest).serve,
		cancel:            (*serviceRequest).cancel,
		timedOut:          (*serviceRequest).timedOut,
		marksUnreachable:  (*serviceRequest).marksUnreachable,
		pass:              pass,
	}
}

// callFunc is a serverCall made of functions.
type callFunc[T any] struct {
	ask func(answer func(T))
	replyFunc[T]
}

func (a *callFunc[T]) onRequest(answer func(T)) { a.ask(answer) }

// replyFunc handles a reply by functions.
type replyFunc[T any] struct {
	onAnswer func(T)
	lost     func()
}

func (t *replyFunc[T]) onReply(answer T) { t.onAnswer(answer) }
func (t *replyFunc[T]) onTimeout()       { t.lost() }
