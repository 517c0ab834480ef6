package token

import (
	"context"
	"time"
)

// Issuer grants tokens. It is to [Locker] what http.RoundTripper is to
// http.Client: programs use the Locker, backends implement the Issuer. Package
// tokentest holds an implementation to everything said here.
//
// An Issuer must be safe for concurrent use, and comparable (a pointer is):
// a Locker tells re-entry from a second lock by comparing issuers. Calls must
// return soon after ctx is done. Clocks of callers must not matter.
//
// One that wraps another, to count its calls, say, should have a method
// Unwrap() Issuer that returns it: it then counts as what it wraps. Otherwise a
// Hold by the one inside a Hold by the other is [ErrForeign]. The lease calls
// the Issuer that granted it throughout. What an Issuer may be besides,
// [Waiter], [BatchRenewer] and [Raiser], is asked of the wrapper: one that
// embeds the interface Issuer has none of it, and one that embeds an issuer's
// own type has all of it, past the methods of its own.
type Issuer interface {
	// Acquire grants resource to holder for ttl, or refuses with a
	// [*HeldError] at once; it must not wait for the resource. A resource or
	// holder that [New] refuses must be refused with an [*InvalidError].
	//
	// The number must be minted inside the decision that grants, be greater
	// than that of every earlier grant of resource, and be at least the
	// issuer's clock in units of 10 µs since 1970, so that numbers compare
	// across issuers and go on rising when an issuer loses its memory.
	// Where none is left the error is [ErrExhausted].
	//
	// It must be idempotent per holder: asked again by the holder who has
	// the resource (because the first reply was lost), it returns the same
	// number or a greater one, and the full ttl. Holders are compared whole.
	Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (Grant, error)

	// Renew makes the lease of tok last for ttl from now, and returns until
	// when. Where tok's holder no longer has the resource, the error must be
	// [ErrLost]: Renew must never acquire, not even a resource that is free.
	// Any other error promises nothing.
	Renew(ctx context.Context, tok Token, ttl time.Duration) (until time.Time, err error)

	// Release gives the resource back if tok's holder has it; if not, the
	// error must be [ErrLost] and nothing may change. The number plays no
	// part: a holder whose grant was lost with its reply can be released.
	// What is remembered of numbers must survive.
	Release(ctx context.Context, tok Token) error
}

// Grant is what an [Issuer] answers to a successful Acquire.
type Grant struct {
	Token Token
	// Until is when the lease ends if it is not renewed, on the monotonic
	// clock of this process. It must never be later than the issuer's own
	// expiry, so it counts from when the request was sent.
	Until time.Time
	// Claimed says that the mark of Token has been raised together with the
	// grant, in the database that keeps both: a Locker then leaves its Claim out.
	Claimed bool
}
