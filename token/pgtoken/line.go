package pgtoken

import (
	"context"
	"sync"
	"time"
)

type mode int

const (
	unasked   mode = iota // nobody waits, or nobody but who has not been refused yet
	polling               // until there is a session of notifications, or for ever
	listening             // to inbox
)

// state is how waiters are told, until changed is closed.
type state struct {
	mode    mode
	inbox   int64
	changed chan struct{}
}

// remembered is how long the holder of a Wait that failed is known: a question of
// its may still be under way then, and enter the line after it has left.
const remembered = time.Minute

// line is the waiters of one Issuer. The zero line is ready.
type line struct {
	mu      sync.Mutex
	state   state
	waiters map[place]*waiter
	gone    map[place]time.Time // those that failed, and when
	last    time.Time           // when the last waiter went
	silence time.Duration       // instead of what the constant says
	never   bool                // nobody can or may listen
	end     context.CancelFunc  // of the session
	group   sync.WaitGroup
}

func (l *line) enter(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiters == nil {
		l.waiters, l.gone = map[place]*waiter{}, map[place]time.Time{}
	}
	l.waiters[w.place] = w
}

func (l *line) exit(w *waiter, failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = time.Now()
	if l.waiters[w.place] == w {
		delete(l.waiters, w.place)
	}
	for p, at := range l.gone {
		if l.last.Sub(at) > remembered {
			delete(l.gone, p)
		}
	}
	if failed {
		l.gone[w.place] = l.last
	}
}

// now is how waiters are told at present.
func (l *line) now() state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.ready()
}

func (s *state) ready() state {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return *s
}

// set has all waiters ask again: they may have missed something in between.
func (l *line) set(m mode, inbox int64) {
	close(l.state.ready().changed)
	l.state = state{mode: m, inbox: inbox}
}

// open begins to listen, where nobody does and somebody can: most locks are
// free, so that is when the first has been refused. It returns what is now.
func (l *line) open(i *Issuer) state {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.mode != unasked {
		return l.state.ready()
	}
	l.set(polling, 0)
	source, ok := i.DB.(lender)
	if ok && !l.never && i.Poll <= 0 {
		ctx, end := context.WithCancel(context.Background())
		l.end = end
		l.group.Go(func() {
			defer end()
			(&listener{issuer: i, source: source}).run(ctx)
		})
	}
	return l.state.ready()
}

// become is set for the listener: what it says after Close is not heard.
func (l *line) become(m mode, inbox int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.never {
		l.set(m, inbox)
	}
}

// giveUp has all waiters poll from now on.
func (l *line) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.never = true
	l.set(polling, 0)
	if l.end != nil {
		l.end()
	}
}

// deliver wakes the one waiter that m is for. One that has left passes it on.
func (l *line) deliver(i *Issuer, m message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.waiters[m.place]; w != nil {
		select {
		case <-w.woken: // an older one
		default:
		}
		w.woken <- m
	} else if _, gone := l.gone[m.place]; gone {
		l.group.Go(func() { i.leave(context.Background(), m.place) })
	}
}

// quiet closes the line where nobody has waited for long, and reports whether.
func (l *line) quiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.never || len(l.waiters) > 0 || time.Since(l.last) < l.patience() {
		return l.never
	}
	l.set(unasked, 0)
	return true
}

// patience is how long the line stays open without a waiter.
func (l *line) patience() time.Duration {
	if l.silence > 0 {
		return l.silence
	}
	return silence
}
