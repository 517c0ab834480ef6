package sqlguard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

// hazard G9
func TestDeletedRow(t *testing.T) {
	t.Parallel()
	t.Run("a mark in the row is forgotten with the row", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.exec("ALTER TABLE accounts ADD token bigint NOT NULL DEFAULT 0")
		upsert := `INSERT INTO accounts AS a (id, writer, token) VALUES (42, $1, $2)
			ON CONFLICT (id) DO UPDATE SET writer = $1, token = $2 WHERE a.token <= $2`
		e.exec(upsert, "B", 34)
		e.exec(upsert, "A", 33)
		require.Equal(t, "B", e.writer(), "as long as the row is there it fences")
		e.exec("DELETE FROM accounts WHERE id = 42 AND token <= 34")
		e.exec(upsert, "A", 33)
		require.Equal(t, "A", e.writer(), "the twin must let the stale insert in")
	})
	t.Run("a mark of its own stays", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		_, err := e.guard.On(resource).Exec(e.ctx(34), e.sql("DELETE FROM accounts WHERE id = 42"))
		require.NoError(t, err)
		_, err = e.guard.On(resource).Exec(e.ctx(33), e.sql("INSERT INTO accounts (id, writer) VALUES (42, 'A')"))
		require.ErrorIs(t, err, guard.ErrStale)
		require.Zero(t, query[int](e, "SELECT count(*) FROM accounts WHERE id = 42"))
	})
}
