package redistoken

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fencepost/fencepost/token"
)

// Release implements [token.Issuer]. It returns [token.ErrLost] if the token's holder does
// not have the lock.
func (i *Issuer) Release(ctx context.Context, tok token.Token) error {
	k, err := i.keys(tok.Resource)
	if err != nil {
		return fmt.Errorf("redistoken: release %s: %w", tok, err)
	}
	owned, err := i.release(ctx, k, tok.Holder, nil)
	if err == nil && !owned {
		err = token.ErrLost
	}
	if err != nil {
		return fmt.Errorf("redistoken: release %s: %w", tok, err)
	}
	return nil
}

// releaseBestEffort releases a lock that may have been granted to a request without a
// reply. It ignores errors: if it fails, the lock expires.
func (i *Issuer) releaseBestEffort(ctx context.Context, k *keys, holder string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	_, _ = i.release(ctx, k, holder, nil)
}

// release releases holder's lock, or removes leaver from the queue in Redis, or both, and
// reports whether holder had the lock. The script also hands the lock to the next waiter.
func (i *Issuer) release(ctx context.Context, k *keys, holder string, leaver *waiter) (owned bool, err error) {
	h, over := i.state.startHandoff(k, holder)
	sent := time.Now()
	read := func(reply any, err error) (bool, error) {
		defer over()
		return i.released(ctx, h, sent, reply, err)
	}
	c := newCommand(ctx, releaseScript, k, h.args(holder, leaver)...)
	go i.send(c)
	select {
	case <-c.done:
		return read(c.reply(ctx))
	case <-ctx.Done():
		go func() { // the reply is the only notification for h.next
			<-c.done
			_, _ = read(c.Result())
		}()
		return false, context.Cause(ctx)
	}
}

// forget removes w from the queue in Redis. It releases nothing: no holder has the name
// "". It ignores errors: if it fails, w is handed a lock later, which deliver releases.
func (i *Issuer) forget(ctx context.Context, k *keys, w *waiter) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	_, _ = i.run(ctx, releaseScript, k, (*handoff)(nil).args("", w)...)
}

// released parses the reply of release.lua and finishes h, which may be nil.
func (i *Issuer) released(ctx context.Context, h *handoff, sent time.Time, reply any, err error) (owned bool, _ error) {
	var next *localGrant
	if err == nil {
		owned, next, err = parseRelease(reply)
	}
	if h == nil {
		return owned, err
	}
	taken, served := i.state.finishHandoff(h, sent, owned, next)
	if !taken {
		i.releaseBestEffort(ctx, h.queue.keys, h.next.holder)
	}
	for _, w := range served {
		i.forget(ctx, h.queue.keys, w)
	}
	return owned, err
}

// localGrant is the reply of release.lua if the lock was granted to the next waiter of
// the same process.
type localGrant struct {
	number, clock int64
	ticket        string // of the waiter after the next one
}

// parseRelease parses the reply of release.lua. owned reports whether the caller had the
// lock. next is the grant of the next waiter of this process, or nil.
func parseRelease(reply any) (owned bool, next *localGrant, err error) {
	if result, ok := reply.(int64); ok {
		return result == 1, nil, nil
	}
	next = new(localGrant)
	if !fields(reply, &next.number, &next.clock, &next.ticket) {
		return false, nil, parseError(reply)
	}
	return true, next, nil
}

// handoff has the arguments of release.lua about the waiters of this process.
type handoff struct {
	queue       *waitQueue
	next, later *waiter       // the first two waiters; later may be nil
	turns       int           // of the process after next
	nextTicket  string        // the ticket of next; empty if it has none
	laterTicket string        // the ticket of later once next has the lock
	ownTurn     bool          // the process's turn has not ended
	done        chan struct{} // closed when the reply was read
}

// startHandoff chooses the waiter that gets holder's lock if this process's turn
// continues, and the waiter that is then in the queue in Redis. h is nil if this process
// has no waiter. The caller calls over when the release has been answered.
func (s *waitState) startHandoff(k *keys, holder string) (h *handoff, over func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[k.lock]
	if q == nil {
		return nil, func() {}
	}
	held := q.held[holder]
	if held != nil {
		held.ending = true
	}
	over = func() { s.forgetHold(q, holder, held) }
	next := q.first()
	if next == nil {
		return nil, over
	}
	h = &handoff{queue: q, next: next, nextTicket: next.ticket, turns: q.localTurns(), done: make(chan struct{})}
	if h.ownTurn = q.current == holder && q.turns > 0; h.ownTurn {
		h.turns = q.turns - 1
	}
	q.current = ""
	next.inRedis, next.handoff = true, h
	if len(q.waiters) > 1 {
		h.later, h.laterTicket = q.waiters[1], successorTicket(next, h.turns)
		h.later.inRedis, h.later.handoff = true, h
	}
	return h, over
}

// forgetHold removes held, unless holder has been granted the lock again.
func (s *waitState) forgetHold(q *waitQueue, holder string, held *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held != nil && q.held[holder] == held {
		delete(q.held, holder)
	}
	s.prune(q)
}

// args returns the ARGV of release.lua. h and leaver may be nil.
func (h *handoff) args(holder string, leaver *waiter) []any {
	if h == nil && leaver == nil {
		return []any{holder}
	}
	args := []any{holder, queueExpiry.Milliseconds(), "", "", "", "", "", ""}
	if leaver != nil {
		args[2] = leaver.member
	}
	if h == nil {
		return args
	}
	args[3], args[4] = h.next.member, h.nextTicket
	if h.later != nil {
		args[5], args[6] = h.later.member, h.laterTicket
	}
	if h.ownTurn {
		args[7] = "1"
	}
	return args
}

// finishHandoff grants the lock to h.next if the server has granted it. taken is false if
// h.next has left in the meantime: the caller must then release the lock. taken is true if
// h.next was granted the lock by its own poll. served are the waiters that the script has
// put into the queue although they were granted the lock in the meantime, by a poll or by
// another release: the caller must remove them. A waiter whose holder waits again is not
// among them.
func (s *waitState) finishHandoff(h *handoff, sent time.Time, owned bool, got *localGrant) (taken bool, served []*waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(h.done)
	for _, w := range []*waiter{h.next, h.later} {
		if w != nil && w.granted && !(w == h.next && got != nil) && h.queue.find(w.holder) == nil {
			served = append(served, w)
		}
	}
	switch {
	case got != nil:
		until := sent.Add(h.next.handoffTTL)
		if h.later != nil {
			h.later.ticket, h.later.asked, h.later.clock = got.ticket, sent, got.clock
			if h.queue.first() == h.next { // later is in the queue in Redis: it need not poll before next's lease ends
				h.later.pollAt(time.Now().Add(pollDelay(time.Until(until))))
			}
		}
		taken = h.queue.grant(h.next, h.queue.keys.grant(got.number, h.next.holder, until), h.turns)
		s.prune(h.queue)
		return taken || h.queue.held[h.next.holder].includes(got.number), served
	case !owned:
		// The lock was lost, or the reply was: another holder may have the lock by now.
		if first := h.queue.first(); first != nil {
			first.pollAt(time.Now())
		}
	}
	return true, served
}

// notification is the message that queue.lua publishes when it hands a lock to a waiter.
type notification struct {
	number, clock int64
	holder, lock  string
}

func parseNotification(text string) (n notification, ok bool) {
	parts := strings.SplitN(text, "\n", 4)
	if len(parts) < 4 {
		return n, false
	}
	number, errNumber := strconv.ParseInt(parts[0], 10, 64)
	clock, errClock := strconv.ParseInt(parts[1], 10, 64)
	n = notification{number: number, clock: clock, holder: parts[2], lock: parts[3]}
	return n, errNumber == nil && errClock == nil
}

// deliver handles a notification:
//
//   - If the holder waits, it is granted the lock.
//   - If the holder already has the lock, from a poll whose reply arrived before the
//     notification, nothing is done. A release would end a lease in use. If the holder is
//     releasing it, see [hold].
//   - If this process has no such holder, the lock is released, which hands it to the
//     next waiter.
func (i *Issuer) deliver(text string) {
	n, ok := parseNotification(text)
	if !ok {
		return
	}
	i.state.mu.Lock()
	defer i.state.mu.Unlock()
	q := i.state.queues[n.lock]
	if q == nil {
		i.releaseUnclaimed(n)
		return
	}
	w := q.find(n.holder)
	switch {
	case w == nil && q.held[n.holder].includes(n.number) && q.held[n.holder].until.After(time.Now()):
	case w == nil:
		i.releaseUnclaimed(n)
	case w.polling: // the notification may have arrived before the reply from which leaseEnd counts
		w.early = &n
	default:
		q.notified(w, n)
	}
}

// releaseUnclaimed releases in the background a lock for which no caller of this process
// waits. The caller holds i.state.mu.
func (i *Issuer) releaseUnclaimed(n notification) {
	_, resource, ok := strings.Cut(n.lock, "}:lock:") // the first such brace ends the bucket
	if !ok || i.state.closed {
		return
	}
	k, err := i.keys(resource)
	if err != nil || k.lock != n.lock {
		return
	}
	ctx := i.state.ctx
	i.state.background.Go(func() { i.releaseBestEffort(ctx, k, n.holder) })
}
