package migrations_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a restored backup knows: marks, leases and the sequence as they were
// when it was made.
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
	require.NoError(t, f.admit(ctx, f, "account/42", zombie, "zombie"), "the twin: the mark is older than the zombie")

	restore()
	next := f.granted(t, f, "account/42", "next", time.Minute)
	require.Greater(t, next, zombie, "numbers go on from the clock")
	require.NoError(t, f.admit(ctx, f, "account/42", next, "next"))
	require.Equal(t, "ZF001", code(f.admit(ctx, f, "account/42", zombie, "zombie")), "from the first claim on")

	restore()
	require.NoError(t, f.exec(ctx, f, "SELECT fence.prune(fence.number_at(clock_timestamp()))"))
	require.Equal(t, "ZF001", code(f.admit(ctx, f, "account/42", zombie, "zombie")), "at once, with a floor raised to now")
	next = f.granted(t, f, "account/42", "next", time.Minute)
	require.NoError(t, f.admit(ctx, f, "account/42", next, "next"))
}
