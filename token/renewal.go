package token

import (
	"context"
	"time"
)

// Renewal is one of many renewals that are asked for at once.
type Renewal struct {
	Token Token         // whose lease
	TTL   time.Duration // for how long, from now on
	Until time.Time     // the answer, as Renew's, where Err is nil
	Err   error         // the answer, as Renew's
}

// BatchRenewer is what an [Issuer] may be besides: one that renews many leases
// in one trip. A [Locker] then renews all leases of the issuer that fall due at
// about the same time together.
type BatchRenewer interface {
	// RenewAll is Renew for each of batch, and answers in place. One renewal
	// that fails must not fail the others. It must return soon after ctx is
	// done, with an error for each that was not answered by then; batch must
	// not be written to after it has returned.
	RenewAll(ctx context.Context, batch []Renewal)
}
