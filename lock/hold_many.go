package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/fencepost/fencepost/internal/tokenctx"
	"github.com/fencepost/fencepost/token"
)

// HoldAll is Hold for several resources. It acquires them in bytewise order, so two
// callers that hold nothing yet never wait for each other. A caller that already holds a
// lease acquires the others out of order: two such callers can wait for each other, and
// only WaitTimeout bounds that wait.
//
// The context of fn carries all tokens. It ends with the first lease that is lost. A
// resource that is listed twice is acquired once. If the list is empty, HoldAll returns a
// [*token.InvalidError].
func (l *Locker) HoldAll(ctx context.Context, resources []string, fn func(ctx context.Context) error) error {
	sorted, err := names(resources)
	if err != nil {
		return err
	}
	return l.holdSorted(ctx, sorted, fn)
}

func (l *Locker) holdSorted(ctx context.Context, resources []string, fn func(ctx context.Context) error) error {
	if len(resources) == 0 {
		return fn(ctx)
	}
	return l.Hold(ctx, resources[0], func(ctx context.Context) error {
		return l.holdSorted(ctx, resources[1:], fn)
	})
}

// HoldAny is Hold for the first free resource of several. fn receives its name. HoldAny
// makes a semaphore of N slots, each a resource with marks and numbers of its own
// ("pool/1", "pool/2", …). Two holders cannot share one resource, since the guard refuses
// the older of their tokens.
//
// If ctx carries a live lease of one of the resources, HoldAny nests in it. If not, it
// waits in the queues of all resources, and leaves the others when one resource is
// granted. If a second is granted at the same moment, it is released at once. If no
// resource is granted, HoldAny joins the errors of all waits.
func (l *Locker) HoldAny(ctx context.Context, resources []string,
	fn func(ctx context.Context, resource string) error) (err error) {
	held, err := l.acquireAny(ctx, resources)
	if err != nil {
		return err
	}
	defer func() { err = held.finish(ctx, err, held.holdAtLeast) }()
	return fn(held.Context(), held.tok.Resource)
}

// Slots returns the names of a semaphore's n slots, name/1 to name/n, for HoldAny:
//
//	err := locker.HoldAny(ctx, lock.Slots("gpu", 4), func(ctx context.Context, slot string) error { … })
//
// Each slot has tokens and a mark of its own, so the work writes under the name of its slot.
// If a program with a larger n still runs, its holders keep the slots above n until they
// are done. If n is not positive, the list is empty, and HoldAny returns a
// [*token.InvalidError].
func Slots(name string, n int) []string {
	var slots []string
	for i := range n {
		slots = append(slots, name+"/"+strconv.Itoa(i+1))
	}
	return slots
}

// names returns the resources sorted by their bytes, without repetitions. It returns a
// [*token.InvalidError] if a name is not valid, or if there are none.
func names(resources []string) ([]string, error) {
	if len(resources) == 0 {
		return nil, token.ValidateResource("")
	}
	sorted := slices.Clone(resources)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	for _, resource := range sorted {
		if err := token.ValidateResource(resource); err != nil {
			return nil, err
		}
	}
	return sorted, nil
}

// acquireAny is Acquire for the first free resource of several: see HoldAny.
func (l *Locker) acquireAny(ctx context.Context, resources []string) (*Lease, error) {
	slots, err := names(resources)
	if err != nil {
		return nil, err
	}
	t, err := l.settings(slots[0])
	if err != nil {
		return nil, err
	}
	for _, slot := range slots {
		if e := tokenctx.Find[token.Token](ctx, slot); e != nil && !e.Ended() {
			return l.Acquire(ctx, slot)
		}
	}
	all := strings.Join(slots, ",") // sorted, so that hooks get one text for one set of slots
	rand.Shuffle(len(slots), func(a, b int) { slots[a], slots[b] = slots[b], slots[a] })
	return l.acquireNew(ctx, t, all, func() (token.Grant, error) { return l.grantAny(ctx, t, slots) })
}

// grantAny tries each slot once, and then waits for all of them. It returns the first
// grant, and drops the errors of the other slots.
func (l *Locker) grantAny(ctx context.Context, t settings, slots []string) (token.Grant, error) {
	ctx, cancel := waitContext(ctx, t.waitTimeout)
	defer cancel()
	t.waitTimeout = 0
	once := t
	once.noWait = true
	var errs []error
	for _, slot := range slots {
		grant, err := l.waitForGrant(ctx, once, slot)
		if err == nil {
			return grant, nil
		}
		errs = append(errs, err)
		if cause := context.Cause(ctx); cause != nil { // the refusal was found before the wait timed out
			return token.Grant{}, errors.Join(append(errs, cause)...)
		}
	}
	if t.noWait {
		return token.Grant{}, errors.Join(errs...)
	}
	return l.waitAny(ctx, t, slots)
}

// grantResult is the result of the wait for one slot.
type grantResult struct {
	grant token.Grant
	err   error
}

// waitAny returns the first grant. It does not wait for the other waits to end, since the
// ttl of the grant is already running: releaseExtra does.
func (l *Locker) waitAny(ctx context.Context, t settings, slots []string) (token.Grant, error) {
	waiting, leave := context.WithCancel(ctx)
	results := make(chan grantResult, len(slots))
	for _, slot := range slots {
		go func() {
			grant, err := l.waitForGrant(waiting, t, slot)
			results <- grantResult{grant, err}
		}()
	}
	var errs []error
	for range slots {
		r := <-results
		if r.err == nil {
			leave()
			go l.releaseExtra(ctx, t, results, len(slots)-len(errs)-1)
			return r.grant, nil
		}
		errs = append(errs, r.err)
	}
	leave()
	return token.Grant{}, errors.Join(errs...)
}

// releaseExtra waits for the remaining results, and releases the resources granted.
func (l *Locker) releaseExtra(ctx context.Context, t settings, results <-chan grantResult, remaining int) {
	for range remaining {
		if r := <-results; r.err == nil {
			l.releaseUnused(ctx, t, r.grant.Token.Resource, r.grant.Token.Holder)
		}
	}
}
