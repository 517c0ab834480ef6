package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// rowsTable makes a table with a thousand rows, and returns what tells which file it is in.
func rowsTable(t *testing.T, f fence) (file func() int) {
	t.Helper()
	require.NoError(t, f.exec(t.Context(), f, "CREATE TABLE fence.rows (id bigint PRIMARY KEY, n text); INSERT INTO fence.rows SELECT i, 'x' FROM generate_series(1, 1000) i"))
	return func() int { return get[int](t, f, f, "SELECT pg_relation_filenode('fence.rows')::bigint") }
}

// shape is a table's columns, from the third on.
func shape(t *testing.T, f fence, table string) string {
	t.Helper()
	return get[string](t, f, f, `SELECT coalesce(string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), NULLIF(attcollation, 0)::regcollation,
		CASE WHEN attnotnull THEN 'not null' END, pg_get_expr(adbin, adrelid)), ', ' ORDER BY attnum), '')
		FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
		WHERE attrelid = $1::text::regclass AND attnum > 2 AND NOT attisdropped`, f.sql(table))
}

func TestAddMarkColumns(t *testing.T) {
	t.Parallel()
	const both = `last_token bigint not null 0, last_holder text "C" not null ''::text`
	add := "SELECT fence.add_mark_columns('fence.rows')"
	t.Run("writes no row, and nothing at all where the columns are there", func(t *testing.T) {
		t.Parallel()
		f := newFence(t)
		file := rowsTable(t, f)
		before := file()
		require.NoError(t, f.exec(t.Context(), f, add))
		require.Equal(t, both, shape(t, f, "fence.rows"))
		require.Equal(t, before, file(), "the table was rewritten")
		require.Equal(t, 1000, get[int](t, f, f, "SELECT count(*) FROM fence.rows WHERE last_token = 0 AND last_holder = ''"))
		tx := f.begin(t, pgx.ReadCommitted) // whoever reads, keeps an ALTER TABLE waiting, but not this
		require.NoError(t, f.exec(t.Context(), tx, "SELECT FROM fence.rows"))
		require.NoError(t, f.exec(t.Context(), f, add))
		require.Equal(t, both, shape(t, f, "fence.rows"))

		require.NoError(t, f.exec(t.Context(), tx, "ROLLBACK"))
		require.NoError(t, f.exec(t.Context(), f, "ALTER TABLE fence.rows ADD fresh bigint DEFAULT random()"))
		require.NotEqual(t, before, file(), "the twin, a default that is not constant, must rewrite it")
	})
	t.Run("adds what is missing, by any name", func(t *testing.T) {
		t.Parallel()
		f := newFence(t)
		rowsTable(t, f)
		require.NoError(t, f.exec(t.Context(), f, "ALTER TABLE fence.rows ADD fence bigint"))
		require.NoError(t, f.exec(t.Context(), f, `SELECT fence.add_mark_columns('fence.rows', number => 'fence', holder => 'who"; DROP TABLE x; --')`))
		require.Equal(t, `fence bigint, who"; DROP TABLE x; -- text "C" not null ''::text`, shape(t, f, "fence.rows"))
	})
	t.Run("tells of a column that is something else, and changes nothing", func(t *testing.T) {
		t.Parallel()
		f := newFence(t)
		rowsTable(t, f)
		require.NoError(t, f.exec(t.Context(), f, "ALTER TABLE fence.rows ADD last_holder varchar(10)"))
		err := f.exec(t.Context(), f, add)
		require.Equal(t, "42804", code(err))
		require.ErrorContains(t, err, "last_holder is character varying(10), not text")
		require.Equal(t, "last_holder character varying(10) \"default\"", shape(t, f, "fence.rows"))
		require.Error(t, f.exec(t.Context(), f, "SELECT fence.add_mark_columns('fence.rows', 'one', 'one')"))
	})
	t.Run("does not wait behind a long reader for ever, and leaves the session's limit", func(t *testing.T) {
		t.Parallel()
		f := newFence(t)
		rowsTable(t, f)
		reader := f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.exec(t.Context(), reader, "SELECT FROM fence.rows"))
		conn := f.conn(t)
		require.Equal(t, "55P03", code(f.exec(t.Context(), conn, "SELECT fence.add_mark_columns('fence.rows', wait => 50)")))
		require.NoError(t, f.exec(t.Context(), conn, "SET lock_timeout = 20"))
		require.Equal(t, "55P03", code(f.exec(t.Context(), conn, "SELECT fence.add_mark_columns('fence.rows', wait => 0)")), "the session's own limit stands")

		twin := f.conn(t)
		waits := later(t, func() error {
			return f.exec(t.Context(), twin, "ALTER TABLE fence.rows ADD last_token bigint NOT NULL DEFAULT 0")
		})
		f.blocked(t, twin) // the twin, an ALTER TABLE by itself, waits for as long as the reader is there, and others behind it
		require.NoError(t, reader.Rollback(t.Context()))
		require.NoError(t, waits())

		require.NoError(t, f.exec(t.Context(), conn, "BEGIN"))
		require.NoError(t, f.exec(t.Context(), conn, "SELECT fence.add_mark_columns('fence.rows', wait => 10)"))
		require.Equal(t, "20ms", get[string](t, f, conn, "SELECT current_setting('lock_timeout')"))
		require.NoError(t, f.exec(t.Context(), conn, "COMMIT"))
		require.Equal(t, both, shape(t, f, "fence.rows"))
	})
	t.Run("reaches the partitions", func(t *testing.T) {
		t.Parallel()
		f := newFence(t)
		require.NoError(t, f.exec(t.Context(), f, `CREATE TABLE fence.rows (id bigint PRIMARY KEY, n text) PARTITION BY RANGE (id);
			CREATE TABLE fence.part PARTITION OF fence.rows FOR VALUES FROM (0) TO (10)`))
		require.NoError(t, f.exec(t.Context(), f, add))
		require.Equal(t, both, shape(t, f, "fence.part"))
	})
	t.Run("takes the rights of whoever calls it", func(t *testing.T) {
		t.Parallel()
		f := newFence(t)
		rowsTable(t, f)
		conn := asRole(t, f, "GRANT USAGE ON SCHEMA "+f.schema)
		require.Equal(t, "42501", code(f.exec(t.Context(), conn, add)))
	})
}

func TestRefusing(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	refusing := func(number int64, holder string) string {
		return get[string](t, f, f, "SELECT coalesce((SELECT concat_ws(' ', number, holder) FROM fence.refusing('account/42', $1, $2)), 'nothing')", number, holder)
	}
	require.Equal(t, "nothing", refusing(1, "a"))
	require.NoError(t, f.admit(t.Context(), f, "account/42", 33, "a"))
	for number, want := range map[int64]string{32: "33 a", 33: "nothing", 34: "nothing"} {
		require.Equal(t, want, refusing(number, "a"))
	}
	require.Equal(t, "33 a", refusing(33, "b"))
	require.NoError(t, f.exec(t.Context(), f, "DELETE FROM fence.marks; UPDATE fence.floor SET number = 40"))
	require.Equal(t, "40 ", refusing(39, "a"))
	require.Equal(t, "nothing", refusing(40, "a"))
}

func TestCheckRow(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	check := func(key, wanted string, n any, o any) error {
		return f.exec(t.Context(), f, "SELECT fence.check_row('text', $1, $2, $3, $4, 33, 'a')", key, wanted, n, o)
	}
	require.NoError(t, check("42", "42", 33, "a"))
	require.Equal(t, "55000", code(check("42", "42", nil, nil)), "the row has not taken the mark")
	require.Equal(t, "55000", code(check("42", "42", 32, "z")))
	refused(t, check("42", "42", 33, "b"), "ZF002", "33 b")
	refused(t, check("42", "42", 34, "b"), "ZF001", "34 b")
	require.Equal(t, "22023", code(check("42", "042", 33, "a")))
	require.Equal(t, "22023", code(check("42", "42 ", 33, "a")))
}
