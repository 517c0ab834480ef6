package token

import (
	"context"
	"time"
)

// Observer is told what happens to a Locker's leases. Hooks that are nil are
// passed over. They are called on the goroutine that does the work, or that
// renews for all, and must be quick. ctx is that of the call, or of the lease:
// it may have ended. Nothing is told of re-entries, which acquire nothing.
type Observer struct {
	// Acquired is called with each new token, before its claim, and how long
	// was waited for it.
	Acquired func(ctx context.Context, tok Token, waited time.Duration)
	// GaveUp is called where none was granted: err is what the caller gets. Of
	// AcquireAny resource is all of them, with commas between.
	GaveUp func(ctx context.Context, resource string, waited time.Duration, err error)
	// Renewed is called after each renewal; left is how long the lease lasts
	// from now if it is not renewed again.
	Renewed func(ctx context.Context, tok Token, left time.Duration)
	// Endangered is called when a renewal has failed and the lease still lives,
	// for left. Where it is nil, [log/slog] warns at the second failure in a
	// row.
	Endangered func(ctx context.Context, tok Token, left time.Duration, err error)
	// Lost is called once for a lease that was lost, after it was held for so
	// long; err is ErrLost. One that ended with the context it was acquired under
	// was not lost: it is told when it is released.
	Lost func(ctx context.Context, tok Token, held time.Duration, err error)
	// Released is called once for a lease that was released, whether or not it
	// had been lost before. err is that of Release.
	Released func(ctx context.Context, tok Token, held time.Duration, err error)
	// Refused is called when a guard has refused the token of a lease as stale,
	// at the claim or in the function's error.
	Refused func(ctx context.Context, tok Token, err error)
	// Collided is called instead of Refused when the guard has seen the same
	// number from another holder: an issuer has given it twice.
	Collided func(ctx context.Context, tok Token, err error)
	// Healed is called when such a refusal has proven that the issuer forgot,
	// and it was raised to number: the next acquisition is admitted. Where it is
	// nil, [log/slog] warns.
	Healed func(ctx context.Context, tok Token, number int64)
}
