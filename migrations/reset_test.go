package migrations_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
)

const poison = 999_999_999_999_999

// poisoned gives account/42 a mark that no issued token can reach.
func (f fence) poisoned(t *testing.T) {
	t.Helper()
	f.empty(t)
	require.NoError(t, f.admit(t.Context(), f, "account/42", poison, "forged"))
}

func TestReset(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	t.Run("lowers a poisoned mark to the clock", func(t *testing.T) {
		f.poisoned(t)
		ctx := t.Context()
		before := get[int64](t, f, f, "SELECT number FROM fence.acquire('account/42', 'before', '1 hour')")
		refused(t, f.admit(ctx, f, "account/42", before, "before"), "ZF001", "999999999999999 forged")
		require.NoError(t, f.exec(ctx, f, "SELECT fence.release('account/42', 'before')"))

		low := get[int64](t, f, f, clock)
		n := get[int64](t, f, f, "SELECT fence.reset('account/42')")
		require.GreaterOrEqual(t, n, low)
		require.LessOrEqual(t, n, get[int64](t, f, f, clock))
		number, holder := f.mark(t, "account/42")
		require.Equal(t, n, number)
		role := get[string](t, f, f, "SELECT session_user")
		require.Regexp(t, "^reset/"+role+"/[0-9a-f-]{36}$", holder)

		require.Equal(t, "ZF001", code(f.admit(ctx, f, "account/42", before, "before")), "what was issued before is let in")
		after := get[int64](t, f, f, "SELECT number FROM fence.acquire('account/42', 'after', '1 hour')")
		require.NoError(t, f.admit(ctx, f, "account/42", after, "after"), "the next acquisition is still locked out")
	})
	t.Run("mint works again below the forged mark", func(t *testing.T) {
		f.poisoned(t)
		require.Equal(t, "ZF005", code(f.exec(t.Context(), f, "SELECT fence.mint('account/42', 'a')")))
		n := get[int64](t, f, f, "SELECT fence.reset('account/42')")
		require.Greater(t, get[int64](t, f, f, "SELECT fence.mint('account/42', 'a')"), n)
	})
	t.Run("does not touch a mark that is not poisoned", func(t *testing.T) {
		f.pruned(t)
		ctx := t.Context()
		require.NoError(t, f.admit(ctx, f, "account/42", 50, "a"))
		err := f.exec(ctx, f, "SELECT fence.reset('account/42')")
		refused(t, err, "55000", "50 a")
		require.ErrorContains(t, err, "fencepost: nothing to reset: the mark is not above the clock")
		require.Equal(t, "P0002", code(f.exec(ctx, f, "SELECT fence.reset('account/new')")))
		number, _ := f.mark(t, "account/42")
		require.Equal(t, int64(50), number)
	})
	t.Run("can set the number", func(t *testing.T) {
		f.pruned(t)
		ctx := t.Context()
		require.NoError(t, f.admit(ctx, f, "account/42", 50, "a"))
		require.Equal(t, int64(40), get[int64](t, f, f, "SELECT fence.reset('account/42', 40)"))
		require.NoError(t, f.admit(ctx, f, "account/42", 41, "b"))
	})
	t.Run("refuses a number below the floor, and one that poisons", func(t *testing.T) {
		f.pruned(t)
		ctx := t.Context()
		require.NoError(t, f.admit(ctx, f, "account/42", 50, "a"))
		for _, bad := range []any{9, 0, -1, int64(poison)} {
			require.Equal(t, "22023", code(f.exec(ctx, f, "SELECT fence.reset('account/42', $1)", bad)), "%v", bad)
		}
		require.Equal(t, "22023", code(f.exec(ctx, f, "SELECT fence.reset('account/42', fence.number_at(clock_timestamp() + interval '25 hours'))")))
		require.NoError(t, f.exec(ctx, f, "SELECT fence.reset('account/42', fence.number_at(clock_timestamp() + interval '23 hours'))"))
		require.NoError(t, f.exec(ctx, f, "SELECT fence.reset('account/42', 10)"))
	})
	t.Run("is durable under every synchronous_commit", func(t *testing.T) {
		f.poisoned(t)
		tx := f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.exec(t.Context(), tx, "SET LOCAL synchronous_commit = off"))
		require.NoError(t, f.exec(t.Context(), tx, "SELECT fence.reset('account/42')"))
		require.Equal(t, "on", get[string](t, f, tx, "SHOW synchronous_commit"))
	})
	t.Run("refuses a fixed snapshot", func(t *testing.T) {
		f.poisoned(t)
		for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
			require.Equal(t, "25000", code(f.exec(t.Context(), f.begin(t, level), "SELECT fence.reset('account/42')")))
		}
	})
}

func TestResetWaitsForWhoIsAdmitted(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	f.poisoned(t)
	ctx := t.Context()
	writer, resetter := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
	require.NoError(t, f.admit(ctx, writer, "account/42", poison, "forged"))
	require.NoError(t, f.exec(ctx, resetter, "SAVEPOINT s; SET LOCAL lock_timeout = '20ms'"))
	require.Equal(t, "55P03", code(f.exec(ctx, resetter, "SELECT fence.reset('account/42')")))
	require.NoError(t, f.exec(ctx, resetter, "ROLLBACK TO s"))
	wait := pgtest.Later(t, func() error { return f.exec(ctx, resetter, "SELECT fence.reset('account/42')") })
	f.blocked(t, resetter.Conn())
	require.NoError(t, writer.Commit(ctx))
	require.NoError(t, wait())

	admission := pgtest.Later(t, func() error { return f.admit(ctx, f, "account/42", poison, "forged") })
	require.NoError(t, resetter.Commit(ctx))
	require.NoError(t, admission(), "who can forge can poison again: the reset is no guard against that")
}

func TestResetIsWrittenToTheLog(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	f.poisoned(t)
	conn, heard := listening(t)
	require.NoError(t, f.exec(t.Context(), conn, "SELECT fence.reset('account/42')"))
	require.Len(t, *heard, 1)
	number, _ := f.mark(t, "account/42")
	require.Equal(t, "LOG", (*heard)[0].Severity)
	require.Equal(t, get[string](t, f, conn, "SELECT format('fencepost: %I has reset the mark of ''account/42'' from 999999999999999 of ''forged'' to %s', session_user, $1::bigint)", number),
		(*heard)[0].Message)
}

// A restored backup has the marks, leases and the sequence as of its creation.
//
// hazard R12
func TestRestoredBackup(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	before := f.granted(t, f, "account/42", "before", time.Microsecond)
	require.NoError(t, f.admit(ctx, f, "account/42", before, "before"))
	for _, text := range []string{
		"CREATE TABLE fence.saved_marks AS TABLE fence.marks", "CREATE TABLE fence.saved_leases AS TABLE fence.leases",
		"CREATE TABLE fence.saved_numbers AS SELECT last_value FROM fence.numbers",
	} {
		require.NoError(t, f.exec(ctx, f, text))
	}
	zombie := f.granted(t, f, "account/42", "zombie", time.Microsecond)
	require.NoError(t, f.admit(ctx, f, "account/42", zombie, "zombie"))
	naive := get[int64](t, f, f, "SELECT nextval($1::text::regclass)", f.sql("fence.numbers"))
	restore := func() {
		t.Helper()
		for _, text := range []string{
			"TRUNCATE fence.marks, fence.leases", "INSERT INTO fence.marks TABLE fence.saved_marks", "INSERT INTO fence.leases TABLE fence.saved_leases",
		} {
			require.NoError(t, f.exec(ctx, f, text))
		}
		require.NoError(t, f.exec(ctx, f, "SELECT setval($1::text::regclass, (SELECT last_value FROM fence.saved_numbers))", f.sql("fence.numbers")))
	}

	restore()
	require.LessOrEqual(t, get[int64](t, f, f, "SELECT nextval($1::text::regclass)", f.sql("fence.numbers")), naive, "the twin: a bare sequence comes again")
	require.NoError(t, f.admit(ctx, f, "account/42", zombie, "zombie"), "the twin: the mark is older than the stale token")

	restore()
	next := f.granted(t, f, "account/42", "next", time.Hour)
	require.Greater(t, next, zombie, "numbers continue from the clock")
	require.NoError(t, f.admit(ctx, f, "account/42", next, "next"))
	require.Equal(t, "ZF001", code(f.admit(ctx, f, "account/42", zombie, "zombie")), "from the first claim on")

	restore()
	require.NoError(t, f.exec(ctx, f, "SELECT fence.prune(fence.number_at(clock_timestamp()))"))
	require.Equal(t, "ZF001", code(f.admit(ctx, f, "account/42", zombie, "zombie")), "at once, with a floor raised to now")
	next = f.granted(t, f, "account/42", "next", time.Hour)
	require.NoError(t, f.admit(ctx, f, "account/42", next, "next"))
}
