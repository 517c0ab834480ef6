package token

import (
	"container/heap"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/tenure"
)

// wheel keeps the leases of one issuer alive, and ends those that could not be
// kept. It is one timer, set to the next thing to do: a goroutine and a timer
// for each lease cost ten times as much. It waits for nobody: a renewal that
// hangs cannot delay the end of a lease.
type wheel struct {
	issuer Issuer
	leases int       // how many use it; the registry's
	epoch  time.Time // what its times count from

	mu     sync.Mutex
	spokes spokes
	timer  *time.Timer
	fires  time.Duration // when the timer does
}

func newWheel(iss Issuer) *wheel { return &wheel{issuer: iss, epoch: time.Now(), fires: tenure.Never} }

func (w *wheel) now() time.Duration { return time.Since(w.epoch) }

// add puts a lease on the wheel.
func (w *wheel) add(l *lease, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if l.spoke.Stop = tenure.Never; l.atMost > 0 && l.atMost < tenure.Never-now {
		l.spoke.Stop = now + l.atMost
	}
	l.spoke.Wind(now, until.Sub(w.epoch), l.margin)
	heap.Push(&w.spokes, l)
	w.set(now)
}

// remove takes a lease off, if it is still on. It returns what is closed when
// the last renewal is over, or nil where there was none.
func (w *wheel) remove(l *lease) (over <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(l)
	return l.spoke.renewal
}

func (w *wheel) drop(l *lease) {
	if l.spoke.place == off {
		return
	}
	heap.Remove(&w.spokes, l.spoke.place)
	wheels.leave(w)
	if len(w.spokes) == 0 {
		w.timer.Stop()
		w.fires = tenure.Never
	}
}

// set moves the timer where there is something to do before it fires.
func (w *wheel) set(now time.Duration) {
	if len(w.spokes) == 0 || w.spokes[0].spoke.Next >= w.fires {
		return
	}
	w.fires = w.spokes[0].spoke.Next
	if w.timer == nil {
		w.timer = time.AfterFunc(w.fires-now, w.turn)
		return
	}
	w.timer.Reset(w.fires - now)
}

// turn ends what has ended and renews what is due.
func (w *wheel) turn() {
	w.mu.Lock()
	now := w.now()
	w.fires = tenure.Never
	ended, due := w.take(now)
	w.set(now)
	batches := w.batches(now, due) // under mu: a Release must see the renewal that it has to wait for
	w.mu.Unlock()
	for _, l := range ended {
		l.lose(l.ended(now))
	}
	for _, batch := range batches {
		go batch.renew()
	}
}

// take drops what has ended, and marks what is due as being renewed.
func (w *wheel) take(now time.Duration) (ended, due []*lease) {
	for len(w.spokes) > 0 {
		l := w.spokes[0]
		switch {
		case l.ctx.Err() != nil: // given up with its context, and not released
			w.drop(l)
		case l.spoke.End() <= now:
			w.drop(l)
			ended = append(ended, l)
		case l.spoke.Due(now, l.ttl):
			l.spoke.Ask()
			w.move(l)
			due = append(due, l)
		default:
			return ended, due
		}
	}
	return ended, due
}

// move is told that there is something to do for a lease at another time.
func (w *wheel) move(l *lease) { heap.Fix(&w.spokes, l.spoke.place) }
