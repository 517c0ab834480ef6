package pgtoken_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

func TestAdvisoryLineLosesTheDead(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	w, far := wired(t)
	iss := advisory(t, pool, schema)
	tok := acquire(t, iss, "a")
	dead := standInLine(t, advisory(t, far, schema), "dead", long)
	naive, err := far.Acquire(t.Context())
	require.NoError(t, err)
	defer naive.Release()
	forgotten := make(chan error, 1)
	go func() {
		_, err := naive.Exec(t.Context(), "SELECT pg_advisory_lock((k >> 32)::integer, k::bit(32)::integer) FROM "+advisoryKey(schema), resource)
		forgotten <- err
	}()
	process := int32(naive.Conn().PgConn().PID())
	waits := func() bool { return slices.Contains(processes(t, iss, false), process) }
	require.Eventually(t, waits, time.Minute, time.Millisecond)
	third := standInLine(t, iss, "c", long)

	w.kill()
	require.Error(t, (<-dead).err)
	require.Error(t, <-forgotten)
	require.Eventually(t, func() bool { return len(processes(t, iss, false)) == 2 }, time.Minute, 10*time.Millisecond)
	require.True(t, waits(), "a session that does not look for its client must stay in line")
	exec(t, pool, "SELECT pg_terminate_backend($1)", process)
	require.NoError(t, iss.Release(t.Context(), tok))
	c := <-third
	require.NoError(t, c.err)
	require.Greater(t, c.grant.Token.Number, tok.Number)
	require.NoError(t, iss.Release(t.Context(), c.grant.Token))
}

func TestAdvisoryLinePassesOverWhoDoesNotAnswer(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	w, far := wired(t)
	iss := advisory(t, pool, schema)
	asleep := advisory(t, far, schema)
	tok := acquire(t, iss, "a")
	sleeper := standInLine(t, asleep, "b", time.Second)
	third := standInLine(t, iss, "c", long)
	w.hold(true)
	require.NoError(t, iss.Release(t.Context(), tok))
	c := <-third // once the server has ended the sleeper's session, a second later
	require.NoError(t, c.err)
	w.hold(false)
	select {
	case b := <-sleeper:
		t.Fatalf("b has %v, %v while c has the lock", b.grant.Token, b.err)
	case <-time.After(50 * time.Millisecond):
	}
	require.NoError(t, iss.Release(t.Context(), c.grant.Token))
	b := <-sleeper
	require.NoError(t, b.err, "it stands at the end of the line again")
	require.Greater(t, b.grant.Token.Number, c.grant.Token.Number)
	require.NoError(t, asleep.Release(t.Context(), b.grant.Token))
}
