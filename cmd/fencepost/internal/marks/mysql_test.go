package marks

import (
	"database/sql"
	"math"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
)

// Servers without SKIP LOCKED delete the marks one by one, and skip those that are locked.
func TestPruneWithoutSkipLocked(t *testing.T) {
	t.Parallel()
	pool, err := sql.Open("mysql", testenv.MariaDB(t))
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, migrations.Set{Dialect: migrations.MySQL}.Up(t.Context(), pool))
	_, err = pool.ExecContext(t.Context(), "INSERT INTO fencepost_marks VALUES ('a', 1, 'h'), ('b', 2, 'h'), ('c', 3, 'h'), ('d', 9, 'h')")
	require.NoError(t, err)
	writer, err := pool.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = writer.Rollback() }()
	var n int
	require.NoError(t, writer.QueryRowContext(t.Context(), "SELECT number FROM fencepost_marks WHERE resource = 'b' LOCK IN SHARE MODE").Scan(&n))

	conn, err := pool.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	db := &database{conn, mysql{}}
	require.NoError(t, mysql{}.setLockWait(t.Context(), db, time.Second))
	deleted, err := mysql{}.deleteEach(t.Context(), db, []string{"a", "b", "c", "d", "none"}, 5)
	require.NoError(t, err)
	require.Equal(t, 2, deleted)
	require.NoError(t, pool.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM fencepost_marks WHERE resource IN ('b', 'd')").Scan(&n))
	require.Equal(t, 2, n)
}

func TestTheLongestWaitForLocks(t *testing.T) {
	t.Parallel()
	pool, err := sql.Open("mysql", testenv.MariaDB(t))
	require.NoError(t, err)
	defer pool.Close()
	conn, err := pool.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	for d, expected := range map[time.Duration]int{math.MaxInt64: 100_000_000, time.Millisecond: 1, 1500 * time.Millisecond: 2} {
		require.NoError(t, mysql{}.setLockWait(t.Context(), &database{conn, mysql{}}, d))
		var seconds int
		require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT @@innodb_lock_wait_timeout").Scan(&seconds))
		require.Equal(t, expected, seconds, d)
	}
}

func TestResetHolder(t *testing.T) {
	t.Parallel()
	long := resetHolder("größe\n" + string(make([]byte, 300)) + "@%")
	require.LessOrEqual(t, len(long), 200)
	require.Regexp(t, `^reset/größe\?+/[A-Z2-7]{26}$`, long)
	again := resetHolder("a@%")
	require.NotEqual(t, again, resetHolder("a@%"))
}
