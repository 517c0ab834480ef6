package adopt

import (
	"context"
	"crypto/rand"

	"github.com/fencepost/fencepost/sqlguard"
)

// OnStartedLeading returns a callback for client-go's leader election, which draws a
// number for each term of leadership. It calls lead under that number, and then exit with
// the error of lead, or with nil.
func OnStartedLeading(fence *sqlguard.Guard, lead func(ctx context.Context) error, exit func(err error)) func(ctx context.Context) {
	return func(ctx context.Context) {
		ctx, err := fence.Mint(ctx, "leader/billing", "billing:"+rand.Text())
		if err == nil {
			err = lead(ctx)
		}
		exit(err)
	}
}
