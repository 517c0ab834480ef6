package kernel

import (
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/lock"
	"github.com/fencepost/fencepost/internal/tenure"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

// laws are what everybody goes by. A mutant puts something else in the place of
// one of them.
type laws struct {
	// Of the lock.
	acquire func(l *lock.Lock, holder string, ttl time.Duration, now time.Time) (token.Grant, error)
	number  func(l *lock.Lock, g token.Grant, now time.Time) int64 // that goes out with a grant
	join    func(l *lock.Lock, w *lock.Waiter, now time.Time)
	renew   func(l *lock.Lock, holder string, ttl time.Duration, now time.Time) (time.Time, error)
	release func(l *lock.Lock, holder string, now time.Time) error
	raise   func(l *lock.Lock, number int64, now time.Time) error
	revive  func(s *server) // after a restart

	// Of the holder.
	until    func(sent, heard time.Duration) time.Duration // when a lease ends that it was told of
	late     func(a *wish, g granted)                      // told of a grant that it does not wait for any more
	claim    func(h *hold)                                 // before it works
	read     func(u *task)                                 // before it thinks
	look     func(u *task)                                 // before it writes
	refused  func(u *task, stale *guard.StaleError)        // after a write was
	unheard  func(u *task)                                 // after a write without an answer
	suspects func(number, mark int64, lost bool) bool

	// Of the guard.
	raised func(mark guard.Mark, tok token.Token) (guard.Mark, error)
	admit  func(s *store, resource int, tok token.Token) error
	write  func(s *store, q *request, answer func(reply))
	apply  func(s *store, q *request) reply
	prune  func(s *store, cutoff int64)
	awaken func(s *store) // after a restart

	// Of the service.
	verify  func(ring *seal.Ring, sealed seal.Sealed) error
	visit   func(v *visit)
	dismiss func(older *visit)                          // since a newer token has come
	heldUp  func(v *visit)                              // which has waited too long
	blind   func(v *visit)                              // where the marks cannot be reached
	pass    func(r reply, sent int, answer func(reply)) // of the proxy
}

// lawful is the code as it is.
var lawful laws

func init() { // not in its declaration, which would go in circles
	lawful = laws{
		acquire:  (*lock.Lock).Acquire,
		number:   func(_ *lock.Lock, g token.Grant, _ time.Time) int64 { return g.Token.Number },
		join:     (*lock.Lock).Join,
		renew:    (*lock.Lock).Renew,
		release:  (*lock.Lock).Release,
		raise:    (*lock.Lock).Raise,
		revive:   func(*server) {},
		until:    func(sent, _ time.Duration) time.Duration { return sent + ttl },
		late:     func(*wish, granted) {},
		claim:    (*hold).claim,
		read:     (*task).read,
		look:     (*task).look,
		refused:  (*task).refused,
		unheard:  (*task).unheard,
		suspects: tenure.Suspects,
		raised:   guard.Mark.Raised,
		admit:    (*store).admit,
		write:    (*store).write,
		apply:    (*store).apply,
		prune:    (*store).prune,
		awaken:   func(*store) {},
		verify:   func(r *seal.Ring, s seal.Sealed) error { return r.Verify(s) },
		visit:    (*visit).visit,
		dismiss:  (*visit).dismiss,
		heldUp:   (*visit).heldUp,
		blind:    (*visit).blind,
		pass:     pass,
	}
}
