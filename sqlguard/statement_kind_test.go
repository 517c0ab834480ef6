package sqlguard_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
)

var (
	// ends are statements that end a transaction, or chain another one to it.
	ends = []string{
		"COMMIT", "commit work", "Commit Transaction", "COMMIT AND CHAIN", "COMMIT WORK AND NO CHAIN", "END", "end transaction", "END AND CHAIN",
		"ABORT", "abort work", "ROLLBACK", "rollback work", "ROLLBACK TRANSACTION", "ROLLBACK AND CHAIN", "PREPARE TRANSACTION 'x'",
	}
	// harmless are statements that leave the transaction open.
	harmless = []string{
		"SELECT 1", "(SELECT 1)", "SAVEPOINT b", "RELEASE a", "RELEASE SAVEPOINT a", "ROLLBACK TO a", "rollback work to savepoint a",
		"ROLLBACK /* ; */ TRANSACTION -- TO\n TO a", "SET LOCAL work_mem = '1MB'", "SET TRANSACTION READ WRITE",
		"SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "LOCK pg_temp.t", "PREPARE p AS SELECT 1", `PREPARE "transaction" AS SELECT 1`,
		"SELECT ';COMMIT'", "SELECT 'it''s; COMMIT'", `SELECT E'\';COMMIT'`, `SELECT e'\\', ';COMMIT'`, "SELECT E'a'\n'\\';COMMIT'", "SELECT 'a' -- '\n';COMMIT'",
		`SELECT U&'\0041;COMMIT'`, `SELECT 1 AS "a;COMMIT"`, `SELECT 1 AS "a"";COMMIT"`, `SELECT 1 AS U&"a;COMMIT"`, "SELECT N';COMMIT'",
		"SELECT $$;COMMIT$$", "SELECT $a$;$$;COMMIT;$b$$a$", "SELECT $ä$;COMMIT$ä$", "SELECT 1 AS a$$, 2 AS b$$", "SELECT 1e1, 1.5e-3, .5",
		"SELECT 1 /* ;COMMIT */", "SELECT 1 /* /* */ ;COMMIT */", "SELECT 1 -- ;COMMIT", "SELECT 1 /* /*/ /**/ */ */", "SELECT 2 */**/ 3", "SELECT 1--;COMMIT\r",
		"CREATE RULE r AS ON INSERT TO pg_temp.t DO ALSO (SELECT 1; SELECT 2)", "SELECT b'1', x'f' /* ' */", "SELECT 1 AS e, 'a\\', ';COMMIT'",
		"SELECT CASE WHEN true THEN 1 END", "DO $$BEGIN PERFORM 1; END$$", "SELECT 'a\\'", "VALUES (1), (2)", "TABLE pg_temp.t", "INSERT INTO pg_temp.t VALUES (2)",
	}
	// blanks are strings that the server skips.
	blanks = []string{" ", "\t", "\n", "\r\n", "\f", "/**/", "/* TO */", "/* ' */", "/* /* ; */ $$ */", "-- TO\n", "-- '\r", "--\n", "/*/**/*/", "-- a /*\n", `/* " */`}
	// leads are strings before a hidden statement. Each has one reading only if strings,
	// names and comments are parsed as the server does.
	leads = []string{
		"", ";", ";;", "SELECT 1;", "SELECT 'a\\';", `SELECT E'\'';`, `SELECT E'\\';`, "SELECT E'a'\n'\\'';", "SELECT $$'$$;", "SELECT $a$ $$ ' $a$;",
		`SELECT 1 AS "'";`, `SELECT 1 AS """";`, "SELECT U&'\\\\';", "SELECT b'1';", "SELECT 1 AS a$a$;", "ROLLBACK TO a;", "SAVEPOINT b;",
		"SELECT 1 AS \"a;\" /* $$ */;", "SELECT 'a' /* '\n' */;", "SELECT N'\\';", "SELECT 1 AS e;", "SELECT $1$$;$$;", "INSERT INTO pg_temp.t VALUES (2); ",
		"SELECT CASE WHEN true THEN 1 END;", "CREATE FUNCTION pg_temp.begin() RETURNS int LANGUAGE sql AS 'SELECT 1';", "SELECT ('(');", "SELECT '''';",
		"PREPARE p AS SELECT 1;", "SET LOCAL standard_conforming_strings = off; SELECT 'a\\';", "SELECT 1 AS \"(\";", "SELECT e'a', E'\\047;';",
	}
	trails = []string{"", ";", " ; ;", "; SELECT 1", ";BEGIN", ";BEGIN;SELECT 1", "-- TO", "/* TO */", "; -- '"}
)

// disguised returns an end with blanks between its words, and a lead and a trail around
// it.
func disguised(pick func(n int) int) string {
	var b strings.Builder
	b.WriteString(leads[pick(len(leads))])
	blank := func(least int) {
		for range least + pick(3) {
			b.WriteString(blanks[pick(len(blanks))])
		}
	}
	blank(0)
	for i, word := range strings.Fields(ends[pick(len(ends))]) {
		if i > 0 {
			blank(1)
		}
		b.WriteString(word)
	}
	blank(0)
	b.WriteString("\n" + trails[pick(len(trails))])
	return b.String()
}

// hazard G30: the server determines which strings end a transaction. refuseTxControl must
// refuse each of them, and no harmless statement.
func TestWhatEndsATransactionIsRefused(t *testing.T) {
	t.Parallel()
	conn, err := newEnv(t).pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	defer conn.Conn().Close(t.Context()) // its prepared statements are gone
	pg := conn.Conn().PgConn()
	run := func(sql string) error {
		_, err := pg.Exec(t.Context(), sql).ReadAll()
		return err
	}
	require.NoError(t, run("CREATE TEMP TABLE t (n int)"))
	stays := func(sql string) bool {
		require.NoError(t, run("ROLLBACK; DISCARD PLANS; BEGIN; SELECT set_config('fencepost.same', 'yes', true); SAVEPOINT a"))
		failed := run(sql)
		if pg.TxStatus() == 'E' {
			t.Logf("%q: %v", sql, failed)
		}
		if pg.TxStatus() != 'T' {
			return pg.TxStatus() == 'E'
		}
		rows, err := pg.Exec(t.Context(), "SELECT current_setting('fencepost.same', true)").ReadAll()
		require.NoError(t, err)
		return string(rows[0].Rows[0][0]) == "yes"
	}
	for _, sql := range harmless {
		require.True(t, stays(sql), sql)
		require.Equal(t, byte('T'), pg.TxStatus(), "the server must run %q", sql)
		require.NoError(t, sqlguard.RefuseTxControl(sql), sql)
		_ = run("DEALLOCATE ALL")
	}
	ended := 0
	random := rand.New(rand.NewPCG(1, 2))
	for range 600 {
		sql := disguised(random.IntN)
		if !stays(sql) {
			ended++
			require.Error(t, sqlguard.RefuseTxControl(sql), "%q", sql)
		}
		_ = run("DEALLOCATE ALL")
	}
	require.Greater(t, ended, 300, "the server must run most of them")
}

func FuzzStatementKind(f *testing.F) {
	for i, sql := range append(harmless, ends...) {
		f.Add(sql, []byte{byte(i), byte(i * 7), byte(i * 11)})
	}
	f.Fuzz(func(t *testing.T, sql string, choices []byte) {
		if sqlguard.RefuseTxControl(sql) == nil {
			require.Error(t, sqlguard.RefuseTxControl(sql+"\n;"+ends[len(sql)%len(ends)]), "%q", sql)
		}
		sqlguard.CannotCommit(sql)
		end := disguised(func(n int) int {
			if len(choices) == 0 {
				return 0
			}
			c := int(choices[0])
			choices = choices[1:]
			return c % n
		})
		require.Error(t, sqlguard.RefuseTxControl(end), "%q", end)
	})
}

// hazard G30
func TestAStatementInDisguiseEndsNoTransaction(t *testing.T) {
	t.Parallel()
	set := "UPDATE accounts SET writer = 'x' WHERE id = 42"
	inEveryMode(t, modes, func(t *testing.T, mode pgx.QueryExecMode) {
		e := newEnv(t)
		pool, _ := wired(t, 1, inMode(mode))
		on := e.by(pool).On(resource)
		e.admitted(33)
		for _, end := range []string{
			";COMMIT", "ROLLBACK /* TO */", ";PREPARE TRANSACTION 'x'", "/**/COMMIT AND CHAIN", set + "; COMMIT", "SAVEPOINT a; ROLLBACK TO a; COMMIT",
			set + "; " + set, "ROLLBACK -- TO a", "SELECT 'a", "SELECT $a$ $$", "SELECT 1 /* /* */", `SELECT "a`, "SELECT (1", "COMMIT PREPARED 'x'",
		} {
			end = e.sql(end)
			_, err := on.Exec(e.ctx(33), end)
			require.ErrorContains(t, err, "sqlguard: ", end)
			_, err = on.Query(e.ctx(33), end)
			require.ErrorContains(t, err, "sqlguard: ", end)
			require.ErrorContains(t, on.QueryRow(e.ctx(33), end).Scan(), "sqlguard: ", end)
			require.ErrorContains(t, on.SendBatch(e.ctx(33), batch(e.sql(set), end)).Close(), "sqlguard: ", end)
			_, err = on.Exec(e.ctx(33), "SELECT 1", rewriting(end))
			require.ErrorContains(t, err, "sqlguard: ", end)
		}
		require.Empty(t, e.writer(), "nothing was applied")
		_, err := on.Exec(e.ctx(33), e.sql(";; -- so\n"+set+" ; /* and */ ;"))
		require.NoError(t, err, "what is empty is no statement")
		require.Equal(t, "x", e.writer())
		// pgx does not cache a statement without text, and panics if a batch has one.
		for _, empty := range []string{"", ";", " -- so", "/**/;;"} {
			e.exec("DELETE FROM marks")
			tag, err := on.Exec(e.ctx(33), empty)
			require.NoError(t, err, "%q", empty)
			require.Zero(t, tag.RowsAffected())
			require.Equal(t, "33 h33", e.mark(resource), "it is admitted")
			_, err = on.Exec(e.ctx(32), empty)
			require.ErrorIs(t, err, guard.ErrStale)
			rows, err := on.Query(e.ctx(33), empty)
			require.NoError(t, err)
			rows.Close()
			require.NoError(t, rows.Err())
			require.NoError(t, on.SendBatch(e.ctx(33), batch(empty)).Close())
			b := &pgx.Batch{}
			b.Queue(empty)
			b.Queue(e.sql("UPDATE accounts SET writer = $1 WHERE id = 42"), empty)
			require.NoError(t, on.SendBatch(e.ctx(33), b).Close(), "%q", empty)
			require.Equal(t, empty, e.writer())
		}
	})
	inEnv(t, "the twin, which reads only the first word, applies a stale write", func(t *testing.T, e *env) {
		e.admitted(33)
		pool, _ := wired(t, 1, inMode(pgx.QueryExecModeSimpleProtocol))
		b := &pgx.Batch{}
		b.Queue("BEGIN")
		b.Queue("SELECT " + e.schema + ".admit('account/42', 33, 'h33', -1)")
		for _, hidden := range []string{";COMMIT", "SELECT pg_advisory_xact_lock(4242)", e.sql("UPDATE accounts SET writer = 'stale' WHERE id = 42")} {
			require.NotRegexp(t, "^(COMMIT|END|ABORT|BEGIN|START|ROLLBACK|PREPARE)", hidden, "what was refused before")
			b.Queue(hidden)
		}
		b.Queue("COMMIT")
		wall, err := e.pool.Begin(t.Context())
		require.NoError(t, err)
		defer wall.Rollback(t.Context())
		_, err = wall.Exec(t.Context(), "SELECT pg_advisory_xact_lock(4242)")
		require.NoError(t, err)
		stale := async(func() error { return pool.SendBatch(e.bounded(), b).Close() })
		e.await("the twin is behind its own COMMIT", func() bool {
			return query[bool](e, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'advisory' AND query LIKE '%' || $1 || '%')", e.schema)
		})
		e.admitted(34)
		require.NoError(t, e.guard.Update(e.ctx(34), resource, e.write(e.ctx(34), "34")))
		require.NoError(t, wall.Rollback(t.Context()))
		require.NoError(t, await(t, stale))
		require.Equal(t, "stale", e.writer(), "the twin must be corrupted")
	})
}

// rewriting is a QueryRewriter that returns another statement.
type rewriting string

func (r rewriting) RewriteQuery(context.Context, *pgx.Conn, string, []any) (string, []any, error) {
	return string(r), nil, nil
}

// hazard G30: the text of a prepared statement is unknown, but its tag shows what it did.
func TestAPreparedEndIsUnknown(t *testing.T) {
	t.Parallel()
	set := "UPDATE accounts SET writer = 'x' WHERE id = 42"
	for name, send := range map[string]func(ctx context.Context, on sqlguard.Conn, sql func(string) string, end string) error{
		"Exec": func(ctx context.Context, on sqlguard.Conn, _ func(string) string, end string) error {
			_, err := on.Exec(ctx, end)
			return err
		},
		"Query": func(ctx context.Context, on sqlguard.Conn, _ func(string) string, end string) error {
			rows, err := on.Query(ctx, end)
			if err != nil {
				return err
			}
			rows.Close()
			return rows.Err()
		},
		"SendBatch": func(ctx context.Context, on sqlguard.Conn, sql func(string) string, end string) error {
			return on.SendBatch(ctx, batch(end, sql(set))).Close()
		},
		"SendBatch, with callbacks": func(ctx context.Context, on sqlguard.Conn, sql func(string) string, end string) error {
			b := &pgx.Batch{}
			b.Queue(end).Query(func(pgx.Rows) error { return nil })
			b.Queue(sql(set)).QueryRow(func(row pgx.Row) error { _ = row.Scan(); return nil })
			return on.SendBatch(ctx, b).Close()
		},
		"SendBatch, read one by one": func(ctx context.Context, on sqlguard.Conn, sql func(string) string, end string) error {
			br := on.SendBatch(ctx, batch(end, sql(set)))
			_ = br.QueryRow().Scan()
			_, _ = br.Exec()
			return br.Close()
		},
	} {
		inEnv(t, name, func(t *testing.T, e *env) {
			e.admitted(33)
			for _, inside := range []bool{false, true} {
				for _, end := range []string{"COMMIT", "ROLLBACK"} {
					conn, err := e.pool.Acquire(t.Context())
					require.NoError(t, err)
					_, err = conn.Conn().Prepare(t.Context(), "quietly", end)
					require.NoError(t, err)
					g := e.by(conn)
					if inside {
						tx, err := conn.Begin(t.Context())
						require.NoError(t, err)
						g.DB = tx
					}
					err = send(e.ctx(33), g.On(resource), e.sql, "quietly")
					require.ErrorIs(t, err, guard.ErrUnknown, fmt.Sprint(end, inside))
					require.NoError(t, conn.Conn().Close(t.Context()))
					conn.Release()
				}
			}
		})
	}
}

// hazard G24
func TestAGuardedStatementEndsNoTransaction(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.admitted(33)
	on := e.guard.On(resource)
	for _, end := range []string{
		"COMMIT", "commit and chain", " /* so */ END", "ABORT", "ROLLBACK", "BEGIN", "START TRANSACTION", "PREPARE TRANSACTION 'x'",
	} {
		_, err := on.Exec(e.ctx(33), end)
		require.ErrorContains(t, err, "already runs in a transaction", end)
		b := batch(e.sql("UPDATE accounts SET writer = 'x' WHERE id = 42"), end)
		require.ErrorContains(t, on.SendBatch(e.ctx(33), b).Close(), "already runs in a transaction", end)
	}
	require.Empty(t, e.writer(), "nothing was applied")
	b := batch("SAVEPOINT a", e.sql("UPDATE accounts SET writer = 'x' WHERE id = 42"),
		"ROLLBACK TO a", e.sql("UPDATE accounts SET writer = 'y' WHERE id = 42"))
	require.NoError(t, on.SendBatch(e.ctx(33), b).Close())
	require.Equal(t, "y", e.writer(), "savepoints are the caller's")

	t.Run("the twin, which allows the COMMIT, continues unguarded", func(t *testing.T) {
		tx, err := e.pool.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(t.Context())
		require.NoError(t, e.guard.Join(e.ctx(33), tx, resource))
		_, err = tx.Exec(t.Context(), "COMMIT")
		require.NoError(t, err)
		e.admitted(34)
		require.NoError(t, e.write(t.Context(), "stale")(tx))
		require.Equal(t, "stale", e.writer())
	})
}
