package sqlguard_test

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
)

// Report-only mode comes before enforcing: no write is refused, and refusals are counted.
func ExampleGuard_dangerouslyReportOnly() {
	var pool *pgxpool.Pool
	count := func(_ context.Context, err error) { /* by errors.Is, in your metrics */ }

	fence := &sqlguard.Guard{DB: pool, DangerouslyReportOnly: true, Hooks: guard.Hooks{Reported: count}}
	_ = fence
}
