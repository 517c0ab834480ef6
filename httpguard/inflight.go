package httpguard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/internal/inflight"
)

// InFlight keeps handlers under different tokens of one resource from running at the same
// time, inside one process. It makes the check before a handler hold until the handler
// has returned:
//
//   - Requests under one token run in parallel. This includes a request that a handler
//     sends to its own service.
//   - A newer token cancels the contexts of the older requests on its resource, with a
//     [*guard.DismissedError] as the cause, and waits until their handlers have returned.
//     The older handlers' reads of the body end at once, and their writes of the response
//     end after half of WaitTimeout, so a client that stalls in the middle of a request
//     does not block newer ones.
//   - An older token that arrives while a newer one waits or runs is stale.
//   - Tokens with equal numbers and different holders run one after another; the store
//     decides between them.
//
// InFlight keeps no state for a resource without requests in flight. It therefore does
// not replace a Store, which remembers the highest token.
//
// The zero value is ready to use. It must not be copied, and is safe for concurrent use.
// Middlewares with the same InFlight share it.
type InFlight struct {
	mu     sync.Mutex
	queues map[queueKey]inflight.Queue // only those with a request
}

// queueKey identifies a queue. Middlewares that share sharedInFlight share only the
// queues of their owner: two services in one process, as in tests, may use the same
// resource names.
type queueKey struct {
	owner    any
	resource string
}

// sharedInFlight is used by middlewares whose InFlight is nil.
var sharedInFlight InFlight

// slot is a request's place in one queue.
type slot struct {
	inflight.Slot
	signed  *signature.Signed // the request's own, with the token
	request *request
	woken   chan struct{} // closed when the slot runs or is refused
}

var _ inflight.Waiter = (*slot)(nil)

// Wake implements [inflight.Waiter].
func (s *slot) Wake() { close(s.woken) }

func (s *slot) key() queueKey { return queueKey{s.request.owner, s.signed.Token.Resource} }

// errWaitTimeout is returned if WaitTimeout ends before the older requests have left.
var errWaitTimeout = errors.New("httpguard: older requests are still in their handlers")

// enterAll adds req to the queues of its resources, in bytewise order. All requests use
// that order, so no two wait for each other. The timeout is for all queues together.
func (f *InFlight) enterAll(req *request, wait time.Duration) error {
	req.inFlight = f
	var timeout <-chan time.Time
	for i := range req.slots {
		s := &req.slots[i]
		older, waits, err := f.enter(s)
		if err != nil {
			return err
		}
		for _, o := range older {
			other := o.Waiter.(*slot)
			other.request.cancelFor(other.signed.Token, wait/2)
		}
		if !waits {
			continue
		}
		if timeout == nil {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			timeout = timer.C
		}
		if err := f.wait(s, timeout); err != nil {
			return err
		}
	}
	return nil
}

// enter adds s to its resource's queue. It returns the older requests to cancel, and
// whether s must wait on s.woken until they have left. If it returns an error, a refusal,
// s is in no queue.
func (f *InFlight) enter(s *slot) (older []*inflight.Slot, waits bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Token, s.Waiter = &s.signed.Token, s
	q := f.queues[s.key()]
	if older, waits, err = q.Enter(&s.Slot); err != nil {
		return nil, false, err
	}
	if f.queues == nil {
		f.queues = make(map[queueKey]inflight.Queue)
	}
	f.queues[s.key()] = q
	if waits {
		s.woken = make(chan struct{})
	}
	return older, waits, nil
}

// wait blocks until s may run, or returns an error. It checks whether s runs after it was
// woken, because a still newer token may have arrived meanwhile.
func (f *InFlight) wait(s *slot, timeout <-chan time.Time) error {
	ctx, expired := s.request.ctx, false
	select {
	case <-s.woken:
	case <-ctx.Done():
	case <-timeout:
		expired = true
	}
	f.mu.Lock()
	running := s.Running
	f.mu.Unlock()
	switch cause := context.Cause(ctx); {
	case running:
		return nil
	case refused(cause) != nil:
		return refused(cause)
	case cause != nil:
		return &storeError{err: cause}
	case expired:
		return errWaitTimeout
	}
	return &guard.StaleError{Token: s.signed.Token}
}

// leaveAll removes slots from their queues, and deletes queues that are then empty. It
// ignores slots that are in no queue.
func (f *InFlight) leaveAll(slots []slot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range slots {
		s := &slots[i]
		q := f.queues[s.key()]
		q.Leave(&s.Slot)
		if q.IsEmpty() {
			delete(f.queues, s.key())
		} else {
			f.queues[s.key()] = q
		}
	}
}
