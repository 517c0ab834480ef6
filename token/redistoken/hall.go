package redistoken

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"github.com/fencepost/fencepost/token"
)

// hall is where the waiters of this process wait, for all resources. Its zero
// value is empty.
type hall struct {
	mu    sync.Mutex
	lines map[string]*line // by the lock's key
	boxes map[string]*box  // by channel
	posts map[string]*post // by the server's address
	id    string           // of this process in channels

	ctx    context.Context // ends with Close
	end    context.CancelFunc
	closed bool
	work   sync.WaitGroup // everything that runs in the background
	since  time.Time      // when the last waiter left
	rest   time.Duration  // of tests; zero means longestRest
}

// start makes what the first waiter needs. The mutex is held.
func (h *hall) start() {
	if h.ctx != nil {
		return
	}
	h.ctx, h.end = context.WithCancel(context.Background())
	h.lines, h.boxes, h.posts = map[string]*line{}, map[string]*box{}, map[string]*post{}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails: it ends the program instead
	h.id = hex.EncodeToString(id[:])
}

// join puts w, who listened for b, into the line for k, and answers whether
// nobody else is there. Not for a moment does it seem that nobody needs b: a
// subscription that breaks in that moment would not be renewed.
func (h *hall) join(k *keys, b *box, w *waiter) (l *line, alone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b.listeners--
	if l = h.lines[k.lock]; l == nil {
		l = &line{keys: k, channel: b.channel, held: map[string]time.Time{}}
		h.lines[k.lock] = l
	}
	l.join(w)
	return l, len(l.waiters) == 1
}

// holds says that holder has k's lock, as far as is known: it need not stand
// in line behind those who wait for it.
func (h *hall) holds(k *keys, holder string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lines[k.lock]
	return l != nil && l.holder == holder
}

// due is how long w has to wait before it asks.
func (h *hall) due(w *waiter) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.due.IsZero() {
		return longestPoll // the first of its process asks
	}
	return time.Until(w.due)
}

// part takes w out of l, and answers whether Redis may know it, and what to
// wait for before it is told.
func (h *hall) part(l *line, w *waiter) (named bool, offer *offer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.remove(w, w.ticket)
	h.tidy(l)
	return w.named, w.offer
}

// tidy forgets l if nothing is left of it. The mutex is held.
func (h *hall) tidy(l *line) {
	h.since = time.Now()
	if l.idle() && h.lines[l.keys.lock] == l { // an answer may come when there is a new one
		delete(h.lines, l.keys.lock)
	}
}

// extend notes that holder has the lock until then.
func (h *hall) extend(lock, holder string, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lines[lock]
	if l == nil {
		return
	}
	if _, held := l.held[holder]; held {
		l.held[holder] = until
	}
}

// mayRest is how long nobody need wait before the subscriptions end.
func (h *hall) mayRest() time.Duration {
	if h.rest == 0 {
		return longestRest
	}
	return h.rest
}

// sweep forgets those whose locks have expired, and answers whether nobody has
// waited for long. The mutex is held.
func (h *hall) sweep() (idle bool) {
	now := time.Now()
	waiters := 0
	for lock, l := range h.lines {
		for holder, until := range l.held {
			if until.Before(now) {
				delete(l.held, holder)
			}
		}
		if waiters += len(l.waiters); l.idle() {
			delete(h.lines, lock)
		}
	}
	for _, b := range h.boxes {
		waiters += b.listeners
	}
	return waiters == 0 && now.Sub(h.since) >= h.mayRest()
}

// who is the holder of l's lock, as far as it is known.
func (h *hall) who(l *line) *token.HeldError {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.holder == "" {
		return nil
	}
	return &token.HeldError{Resource: l.keys.resource, Holder: l.holder, Remaining: max(0, time.Until(l.until))}
}
