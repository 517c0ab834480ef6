package marks

import (
	"database/sql"
	"math"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
)

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, text := range map[time.Duration]string{
		0: "0s", 1234 * time.Millisecond: "1.2s", time.Minute: "1m0s", 47*time.Hour + 1600*time.Millisecond: "47h0m1.6s",
		48 * time.Hour: "2d", 30*24*time.Hour + time.Hour: "30d", 260 * 365 * 24 * time.Hour: "94900d",
	} {
		require.Equal(t, text, Span(d))
	}
}

func onMySQL(t *testing.T) *database {
	t.Helper()
	pool, err := sql.Open("mysql", testenv.MariaDB(t))
	require.NoError(t, err)
	t.Cleanup(func() { pool.Close() })
	require.NoError(t, migrations.Set{Dialect: migrations.MySQL}.Up(t.Context(), pool))
	conn, err := pool.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return newDatabase(conn, &connect.Server{Dialect: engine.MySQL})
}

func TestTheWaitForLocks(t *testing.T) {
	t.Parallel()
	db := onMySQL(t)
	for d, expected := range map[time.Duration]int{math.MaxInt64: 100_000_000, 0: 0, time.Millisecond: 1, 1500 * time.Millisecond: 2} {
		require.NoError(t, waitForLocks(t.Context(), db, d))
		var seconds int
		require.NoError(t, db.row(t.Context(), "SELECT @@innodb_lock_wait_timeout", nil, &seconds))
		require.Equal(t, expected, seconds, d)
	}
}

// The marks of a large table are not sorted.
func TestStressListGoesAlongThePrimaryKey(t *testing.T) {
	t.Parallel()
	list := strings.Replace(listMarks, "{order}", "resource", 1)
	t.Run("MySQL", func(t *testing.T) {
		t.Parallel()
		db := onMySQL(t)
		_, err := db.ExecContext(t.Context(), "INSERT INTO fencepost_marks SELECT CONCAT('account/', LPAD(seq, 6, '0')), seq, 'a' FROM seq_1_to_50000")
		require.NoError(t, err)
		var plan [10]sql.NullString
		require.NoError(t, db.row(t.Context(), "EXPLAIN "+list, []any{"account/01%", 1000},
			&plan[0], &plan[1], &plan[2], &plan[3], &plan[4], &plan[5], &plan[6], &plan[7], &plan[8], &plan[9]))
		require.Equal(t, "range PRIMARY", plan[3].String+" "+plan[5].String)
		require.NotContains(t, plan[9].String, "filesort")
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		pool, schema := testenv.Postgres(t)
		std := stdlib.OpenDBFromPool(pool)
		defer std.Close()
		conn, err := std.Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		db := newDatabase(conn, &connect.Server{Schema: schema})
		for _, text := range []string{
			"INSERT INTO {marks} SELECT 'account/' || lpad(i::text, 6, '0'), i, 'a' FROM generate_series(1, 50000) i", "ANALYZE {marks}",
		} {
			_, err := conn.ExecContext(t.Context(), db.names.Replace(text))
			require.NoError(t, err)
		}
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			var plan strings.Builder
			_, err := conn.ExecContext(t.Context(), "SET plan_cache_mode = "+mode)
			require.NoError(t, err)
			require.NoError(t, db.each(t.Context(), "EXPLAIN "+list, []any{"account/01%", 1000}, func(row *sql.Rows) error {
				var line string
				defer func() { plan.WriteString(line + "\n") }()
				return row.Scan(&line)
			}))
			require.Contains(t, plan.String(), "Index Scan using marks_pkey", mode)
			require.NotContains(t, plan.String(), "Sort", mode)
		}
	})
}
