package redistoken

import (
	"strconv"
	"strings"
	"time"
)

// message is what line.lua publishes to the process of who is handed a lock.
type message struct {
	number, clock int64
	holder, lock  string
}

func parse(text string) (m message, ok bool) {
	parts := strings.SplitN(text, "\n", 4)
	if len(parts) < 4 {
		return m, false
	}
	number, errNumber := strconv.ParseInt(parts[0], 10, 64)
	clock, errClock := strconv.ParseInt(parts[1], 10, 64)
	m = message{number: number, clock: clock, holder: parts[2], lock: parts[3]}
	return m, errNumber == nil && errClock == nil
}

// deliver hands the lock to who it is for. One who waits is served. One who has
// the lock has found it its own by asking, before the message came: giving it
// back would drop a lock in use. And where nobody knows of it, it is passed on.
func (i *Issuer) deliver(text string) {
	m, ok := parse(text)
	if !ok {
		return
	}
	i.hall.mu.Lock()
	defer i.hall.mu.Unlock()
	l := i.hall.lines[m.lock]
	if l == nil {
		i.stray(m)
		return
	}
	w := l.find(m.holder)
	switch {
	case w == nil && l.held[m.holder].After(time.Now()):
	case w == nil:
		i.stray(m)
	case w.asking: // the message may have overtaken the answer that it counts from
		w.early = &m
	default:
		l.handed(w, m)
	}
}

// stray passes on a lock that nobody here waits for. The mutex is held.
func (i *Issuer) stray(m message) {
	_, resource, ok := strings.Cut(m.lock, "}:lock:") // there is no brace before that of the bucket
	if !ok || i.hall.closed {
		return
	}
	k, err := i.keys(resource)
	if err != nil || k.lock != m.lock {
		return
	}
	ctx := i.hall.ctx
	i.hall.work.Go(func() { i.abandon(ctx, k, m.holder) })
}
