package stdsql_test

import (
	"testing"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/guard/guardtest"
)

// hazard G14
func TestStore(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		again := map[string]func(t *testing.T) *database{"postgres": newPostgres, "mysql": newMySQL, "sqlite": newSQLite}[db.dialect.String()]
		guardtest.TestStore(t, func(t *testing.T) guard.Store { return again(t).guard() })
	})
}
