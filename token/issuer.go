package token

import (
	"context"
	"iter"
	"time"

	"github.com/fencepost/fencepost/internal/marks"
)

// Issuer grants tokens. Programs use a [github.com/fencepost/fencepost/lock.Locker],
// which calls an Issuer, as http.Client calls an http.RoundTripper. Package tokentest
// tests an implementation against this contract.
//
// An Issuer must be safe for concurrent use. It must be comparable (a pointer is), since
// a Locker compares issuers to recognize a nested Hold. Each call must return soon after
// ctx is done. An Issuer must not rely on the clocks of its callers.
//
// An Issuer that wraps another, for example to count calls, should have a method Unwrap()
// Issuer that returns the wrapped issuer. The wrapper then counts as the same issuer.
// Without Unwrap, a Hold by the wrapper inside a Hold by the wrapped issuer returns
// [github.com/fencepost/fencepost/lock.ErrNotLeased], and so does the reverse. A lease
// always calls the Issuer that granted it.
//
// A Locker looks for the optional interfaces [QueueIssuer], [BatchRenewer] and
// [Recoverer] on the wrapper only. A wrapper that embeds the interface Issuer has none of
// them. A wrapper that embeds an issuer's concrete type has all of that type's, and their
// calls bypass the wrapper's own methods.
type Issuer interface {
	// Acquire grants resource to holder for ttl. If another holder has the resource, it
	// must return a [*HeldError] at once; it must not wait. If resource or holder is not
	// valid for [New], it must return an [*InvalidError].
	//
	// The number must be minted in the same atomic step that grants. It must be greater
	// than the number of every earlier grant of resource. It must be at least the
	// issuer's clock in units of 10 µs since 1970, so that numbers of several issuers
	// compare, and so that numbers still rise after an issuer has lost its memory. If no
	// number is left, the error must be [ErrExhausted].
	//
	// If the issuer cannot be reached, or takes no writes for now, as a standby that may
	// be promoted, the error must be [ErrUnreachable], returned soon: a waiting Locker
	// repeats the call. A Locker repeats no call that returns another error. An error that
	// a retry cannot cure (a wrong password, a missing schema) must not be ErrUnreachable.
	//
	// Acquire must be idempotent for each holder. If the holder that has the resource
	// calls again, because the first reply was lost, it must get the same number or a
	// greater one, and the full ttl. Holders must be compared byte by byte.
	Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (Grant, error)

	// Renew makes the lease of tok last for ttl from now, and returns its new end. If
	// tok's holder no longer has the resource, the error must be [ErrLost]. Renew must
	// never acquire, even if the resource is free. After any other error, the lease may
	// or may not have been renewed.
	Renew(ctx context.Context, tok Token, ttl time.Duration) (until time.Time, err error)

	// Release frees the resource if tok's holder has it. If not, the error must be
	// [ErrLost], and nothing may change. Release must not compare the number, so that a
	// grant whose reply was lost can be released. The issuer must keep the last number.
	Release(ctx context.Context, tok Token) error
}

// Grant is the result of a successful Acquire or Wait.
type Grant struct {
	Token Token
	// Until is when the lease ends if it is not renewed, with a reading of the monotonic
	// clock. It must not be later than the issuer's own expiry, so it must count from the
	// time at which the request was sent.
	Until time.Time
	// Claimed identifies the marks that the grant has raised to Token. If a Locker's
	// Claim calls the Admit of a sqlguard.Guard with the same marks, Admit sends nothing.
	// Other claims are not affected. Zero means that the grant has raised no marks.
	Claimed marks.ID
}

// QueueIssuer is an optional interface of an [Issuer] with a queue of waiters. A Locker
// calls Wait instead of polling Acquire.
type QueueIssuer interface {
	// Wait waits until resource is granted to holder. If the resource is free and the
	// queue is empty, it is granted at once; if not, in the order of arrival. A later
	// Wait or Acquire must not be granted the resource before the waiters in the queue,
	// even while the resource is free for a moment. A dead or unreachable waiter must be
	// skipped.
	//
	// The first grant may be shorter than ttl, so that a grant that its waiter never
	// receives expires quickly. It must be long enough for one Renew, which extends it to
	// the full ttl. If the grant is shorter than its SafetyMargin, a Locker renews at
	// once. Until must count from the waiter's last request that the issuer had answered
	// before it granted, since the message with the grant may have been delayed.
	//
	// If Wait returns an error, holder must have left the queue. If the resource was
	// granted to holder at that moment, the issuer must pass it to the next waiter; if
	// the issuer cannot be reached within a second, the ttl ends the grant. If ctx has
	// ended, the error must wrap [context.Cause], and a [*HeldError] if the issuer has
	// answered the last request and the holder of the resource is known. No other error
	// may wrap one: a refused right or an outage is no contention. [ErrUnreachable] has
	// the meaning that it has for [Issuer.Acquire]. A Locker then waits again with a new
	// holder id, since the request with which the first holder left may still be on its
	// way.
	Wait(ctx context.Context, resource, holder string, ttl time.Duration) (Grant, error)
}

// Renewal is one element of a batch: the parameters and the result of a Renew.
type Renewal struct {
	Token Token         // the token of the lease
	TTL   time.Duration // how long the lease lasts from now
	Until time.Time     // result: the new end, if Err is nil
	Err   error         // result: the error of Renew
}

// BatchRenewer is an optional interface of an [Issuer] that renews many leases in one
// round trip. A Locker renews leases of one issuer together if they are due at about the
// same time.
type BatchRenewer interface {
	// RenewAll is Renew for each element of batch. It sets Until and Err of each element.
	// One renewal that fails must not fail the others. RenewAll must return soon after
	// ctx is done, with an error in each element that was not answered by then. After it
	// has returned, it must not write to batch.
	RenewAll(ctx context.Context, batch []Renewal)
}

// MaxAhead is how far above its own clock an issuer can be raised, in numbers: 24 h in
// units of 10 µs.
const MaxAhead = int64(24 * time.Hour / (10 * time.Microsecond))

// Recoverer is an optional interface of an [Issuer] that can be raised above numbers that
// it has forgotten. A Locker calls Recover if a guard refuses the token of a live lease,
// in the claim or in the function of a Hold.
type Recoverer interface {
	// Recover makes every later grant of resource have a number greater than number. The
	// numbers of other resources may rise too. Recover must decide in one atomic step. If
	// the issuer's last number is number or greater, the issuer has forgotten nothing,
	// and the error must be [ErrLost]: the resource was granted to a newer holder. If
	// number is more than [MaxAhead] above the issuer's clock, the error must be
	// [ErrTooFarAhead]. After any other error, the issuer may or may not have been
	// raised.
	Recover(ctx context.Context, resource string, number int64) error
}

// State is what an issuer has on record of one resource. It is a hint: the lock may have
// changed by the time the caller reads it. A write must not depend on it.
type State struct {
	Resource string
	// Number is not below the number of the holder, nor of an earlier grant, and every later
	// grant has a greater one. It is above the holder's number if [Recoverer.Recover] has
	// raised it since, or if the issuer numbers several resources together, as redistoken
	// does. Zero means that the issuer has no number on record.
	Number int64
	// Holder is the id of the acquisition that has the resource. It is empty if the
	// resource is free, also because the lease has ended.
	Holder string
	// Remaining is the time until the lease ends if it is not renewed, by the issuer's
	// clock. It is zero if the resource is free.
	Remaining time.Duration
	// Waiters are the holder ids that wait, in the order in which the issuer grants. A
	// waiter that has died may still be among them. If the waiters of one process share a
	// place in the queue, as those of redistoken do, only the first of them is listed.
	Waiters []string
}

// Inspector is an optional interface of an [Issuer] whose locks an operator can see.
// Both methods only read: they grant nothing, and they drop no waiter. A server that
// takes no writes, such as a standby, returns what it has on record.
type Inspector interface {
	// Inspect returns the state of resource. A resource that was never granted, or that the
	// issuer has forgotten, is free. If the issuer cannot be reached, the error must be
	// [ErrUnreachable].
	Inspect(ctx context.Context, resource string) (State, error)

	// Locks returns the resources that are held or waited for and whose names begin with
	// prefix, in no order, each at least once if it is held during the whole iteration.
	// An error ends the iteration.
	Locks(ctx context.Context, prefix string) iter.Seq2[State, error]
}
