package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// Whoever comes to write while protect waits queues behind it, so it does not
// wait for ever.
func TestProtectDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fence      func(t *testing.T) fence
		held, call string
	}{
		"protect, behind a writer":                {newAccounts, "INSERT INTO fence.plain VALUES (44, '')", "protect('fence.plain', 'writer'"},
		"protect, behind a writer of a partition": {unprotectedPartitions, "UPDATE fence.west1 SET n = 1", "protect('fence.jobs', 'region'"},
		"unprotect, behind a reader":              {newAccounts, "SELECT FROM fence.accounts", "unprotect('fence.accounts'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, ctx := c.fence(t), t.Context()
			slow := f.begin(t, pgx.ReadCommitted)
			run(t, f, slow, c.held)
			conn := f.conn(t)
			before := f.traces(t)
			require.Equal(t, "55P03", code(f.exec(ctx, conn, "SELECT fence."+c.call+", wait => 50)")))
			require.Equal(t, "0", get[string](t, f, conn, "SHOW lock_timeout"))
			run(t, f, conn, "SET lock_timeout = 20")
			require.Equal(t, "55P03", code(f.exec(ctx, conn, "SELECT fence."+c.call+", wait => 0)")), "the session's own limit stands")
			require.Equal(t, "55P03", code(f.exec(ctx, conn, "SELECT fence."+c.call+", wait => 3600000)")), "where it is the shorter one")
			require.Equal(t, before, f.traces(t), "nothing has changed")

			twin := f.conn(t)
			waits := later(t, func() error { return f.exec(ctx, twin, "SELECT fence."+c.call+", wait => 0)") })
			f.blocked(t, twin) // the twin, without a limit, waits for as long as the other is there
			require.NoError(t, slow.Rollback(ctx))
			require.NoError(t, waits())

			run(t, f, conn, "SET lock_timeout = '1h'; BEGIN")
			run(t, f, conn, "SELECT fence."+c.call+", wait => 60000)")
			require.Equal(t, "1h", get[string](t, f, conn, "SHOW lock_timeout"))
			run(t, f, conn, "COMMIT")
		})
	}
}

func unprotectedPartitions(t *testing.T) fence {
	t.Helper()
	f := newPartitions(t)
	run(t, f, f, "SELECT fence.unprotect('fence.jobs')")
	return f
}
