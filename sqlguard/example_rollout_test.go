package sqlguard_test

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// Observing comes before enforcing: nothing is refused, and what would have
// been is counted.
func ExampleGuard_dangerouslyObserve() {
	var pool *pgxpool.Pool
	count := func(_ context.Context, err error) { /* by errors.Is, in your metrics */ }

	fence := &sqlguard.Guard{DB: pool, DangerouslyObserve: true, Observer: guard.Observer{Observed: count}}
	_ = fence
}

// Rows with a mark of their own are claimed by their Table, all else by the
// guard: a locker has one Claim, which goes by the name.
func ExampleTable_Claim_severalKinds() {
	var (
		fence    *sqlguard.Guard
		accounts *sqlguard.Table
		issuer   token.Issuer
	)
	claim := func(ctx context.Context, tok token.Token) error {
		if strings.HasPrefix(tok.Resource, accounts.Prefix) {
			return accounts.Claim(ctx, tok)
		}
		return fence.Admit(ctx, tok)
	}
	locks := &token.Locker{Issuer: issuer, Claim: claim}
	_ = locks
}
