package simulations_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

func TestStressHistoriesOverDatabaseSQL(t *testing.T) {
	t.Parallel()
	n := testenv.Rounds(t, "FENCEPOST_TORTURE", manyHistories)
	for name, open := range map[string]func(testing.TB) *stdrows{
		"PostgreSQL": stdPostgres, "MariaDB": stdMariaDB, "SQLite": stdSQLite,
	} {
		for door, build := range map[string]func(*stdrows) way{"Update": (*stdrows).update, "Join": (*stdrows).join} {
			t.Run(door+" on "+name, func(t *testing.T) {
				t.Parallel()
				s := newSixteen(t, build(open(t)))
				require.Empty(t, s.run(n/20), "FENCEPOST_TEST_SEED=%d", s.seed)
			})
		}
	}
}

// stdrows are the four rows over database/sql.
type stdrows struct {
	db           *sql.DB
	fence        *stdsql.Guard
	placeholders func(text string) string
}

func stdPostgres(t testing.TB) *stdrows {
	config, err := pgxpool.ParseConfig(testenv.Database(t))
	require.NoError(t, err)
	return newStdrows(t, stdlib.OpenDB(*config.ConnConfig), stdsql.Postgres, migrations.Postgres)
}

func stdMariaDB(t testing.TB) *stdrows {
	db, err := sql.Open("mysql", testenv.MariaDB(t))
	require.NoError(t, err)
	return newStdrows(t, db, stdsql.MySQL, migrations.MySQL)
}

func stdSQLite(t testing.TB) *stdrows {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "rows.db")+"?_pragma=busy_timeout(30000)&_pragma=journal_mode(wal)")
	require.NoError(t, err)
	return newStdrows(t, db, stdsql.SQLite, migrations.SQLite)
}

func newStdrows(t testing.TB, db *sql.DB, d stdsql.Dialect, m migrations.Dialect) *stdrows {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	db.SetMaxOpenConns(writers)
	require.NoError(t, migrations.Set{Dialect: m}.Up(t.Context(), db))
	for _, text := range []string{
		"CREATE TABLE versioned (id bigint PRIMARY KEY, version bigint NOT NULL)",
		"INSERT INTO versioned VALUES (0, 0), (1, 0), (2, 0), (3, 0)",
	} {
		_, err := db.ExecContext(t.Context(), text)
		require.NoError(t, err)
	}
	r := &stdrows{db: db, fence: &stdsql.Guard{DB: db, Dialect: d, IdleTimeout: -1}}
	r.placeholders = func(text string) string { return text }
	if d == stdsql.Postgres {
		r.placeholders = func(text string) string { return strings.NewReplacer("?1", "$1", "?2", "$2").Replace(text) }
	} else if d == stdsql.MySQL {
		r.placeholders = func(text string) string { return strings.NewReplacer("?1", "?", "?2", "?").Replace(text) }
	}
	return r
}

func (r *stdrows) way(add func(ctx context.Context, row string, alone bool) (int64, int64, error)) way {
	return way{claim: r.fence.Admit, add: add, busy: true, count: func(ctx context.Context, row string) (int64, error) {
		return r.version(ctx, r.db, row)
	}}
}

func (r *stdrows) update() way {
	return r.way(func(ctx context.Context, row string, alone bool) (seen, made int64, err error) {
		err = r.fence.Update(ctx, row, func(tx *sql.Tx) error {
			seen, made, err = r.makes(ctx, tx, row, alone)
			return err
		})
		return seen, made, err
	})
}

// join claims first, which MySQL requires.
func (r *stdrows) join() way {
	return r.way(func(ctx context.Context, row string, alone bool) (seen, made int64, err error) {
		if err := claimFor(ctx, r.fence.Admit, row); err != nil {
			return 0, 0, err
		}
		tx, err := r.db.BeginTx(ctx, nil)
		if err != nil {
			return 0, 0, err
		}
		defer tx.Rollback()
		if err := r.fence.Join(ctx, tx, row); err != nil {
			return 0, 0, err
		}
		if seen, made, err = r.makes(ctx, tx, row, alone); err != nil {
			return 0, 0, err
		}
		return seen, made, tx.Commit()
	})
}

// makes adds one, by a read and a write or in the database.
func (r *stdrows) makes(ctx context.Context, tx *sql.Tx, row string, alone bool) (seen, made int64, err error) {
	if !alone {
		if _, err := tx.ExecContext(ctx, r.placeholders("UPDATE versioned SET version = version + 1 WHERE id = ?1"), id(row)); err != nil {
			return 0, 0, err
		}
		made, err = r.version(ctx, tx, row)
		return made - 1, made, err
	}
	if seen, err = r.version(ctx, tx, row); err != nil {
		return 0, 0, err
	}
	_, err = tx.ExecContext(ctx, r.placeholders("UPDATE versioned SET version = ?1 WHERE id = ?2"), seen+1, id(row))
	return seen, seen + 1, err
}

func (r *stdrows) version(ctx context.Context, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, row string) (n int64, err error) {
	err = q.QueryRowContext(ctx, r.placeholders("SELECT version FROM versioned WHERE id = ?1"), id(row)).Scan(&n)
	return n, err
}
