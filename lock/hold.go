package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/tokenctx"
	"github.com/fencepost/fencepost/token"
)

// Hold waits for resource, runs fn with a context that carries the token, and releases
// the resource. The context ends, with cause [token.ErrLost], before the resource can be
// granted to another holder. If fn panics, Hold releases the resource and the panic
// continues.
//
// Holds nest. If ctx carries a live lease of the same resource and issuer, fn runs with
// that lease's token: the nested Hold acquires nothing, and releases nothing when fn
// returns. The context of fn ends with the lease, even if ctx was detached from it by
// [context.WithoutCancel]. If ctx carries another token of the resource, from a request
// or from another issuer's lease, Hold returns [ErrNotLeased].
//
// If fn ran, Hold returns the error of fn, joined with the following; errors.Is finds
// each:
//
//   - [token.ErrLost]: the lease ended while fn ran. It is returned even if fn returned
//     nil. Writes that a guard has admitted are valid. Work without a guard may have
//     overlapped with the next holder's.
//   - [ErrNotReleased]: the work is done, but the resource may stay held until its TTL
//     ends.
//
// If fn did not run, Hold returns one of these:
//
//   - [ErrWaitTimeout], if WaitTimeout has passed.
//   - [token.ErrHeld], if NoWait is set and another holder has the resource.
//   - the cause of ctx, if ctx has ended.
//   - [token.ErrLost], if the lease ended before fn could run, for example because the
//     grant had expired when it arrived.
//   - the error of Claim, or of the issuer.
//   - [ErrNotLeased]: see above.
//   - [ErrNoClaim], a [*token.InvalidError] for an invalid name, or another error for
//     invalid fields of the Locker. Nothing was sent.
func (l *Locker) Hold(ctx context.Context, resource string, fn func(ctx context.Context) error) (err error) {
	held, err := l.Acquire(ctx, resource)
	if err != nil {
		return err
	}
	defer func() { err = held.finish(ctx, err, held.holdAtLeast) }()
	return fn(held.Context())
}

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

// finish ends the lease when the work is done. It joins to err, the error of the work,
// the loss of the lease and the error of the release. It drops the release's ErrLost if
// err is ErrLost already. A nested Hold only ends its own context: the outermost frame
// releases.
func (l *Lease) finish(ctx context.Context, err error, atLeast time.Duration) error {
	lost := context.Cause(l.ctx)
	var released error
	if l.leave != nil {
		l.leave()
	} else {
		err = l.recoverFrom(ctx, err) // before the release, since the release may mint the successor's number
		released = l.release(ctx, atLeast)
	}
	if errors.Is(lost, token.ErrLost) && !errors.Is(err, lost) {
		err = errors.Join(err, lost)
	}
	if released == nil || errors.Is(released, token.ErrLost) && errors.Is(err, token.ErrLost) {
		return err
	}
	return errors.Join(err, released)
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
