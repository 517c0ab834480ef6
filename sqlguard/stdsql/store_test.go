package stdsql_test

import (
	"testing"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/guard/guardtest"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// hazard G14
func TestStore(t *testing.T) {
	t.Parallel()
	guardtest.TestStore(t, func(t *testing.T) guard.Store { return &stdsql.Guard{DB: newDB(t)} })
}
