package sqlguard_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// hazard G26
func TestAdmitIsDurable(t *testing.T) {
	t.Parallel()
	spare := testenv.SparePostgres(t)
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), spare.URL())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
		return conn
	}
	testenv.Migrate(t, spare.URL())

	mark := func(resource string) (number int64) {
		require.NoError(t, connect().QueryRow(t.Context(),
			"SELECT coalesce((SELECT number FROM fencepost.marks WHERE resource = $1), 0)", resource).Scan(&number))
		return number
	}

	const rounds = 4
	// raised raises the mark by all means in a session that commits
	// asynchronously, crashes the server, and returns the mark that is left.
	raised := func(resource string, raise func(conn *pgx.Conn) int64) (want, left int64) {
		conn := connect()
		_, err := conn.Exec(t.Context(), "SET synchronous_commit = off")
		require.NoError(t, err)
		want = raise(conn)
		spare.Crash()
		return want, mark(resource)
	}
	lost := 0
	// after commits one more mark, asynchronously: the twin.
	after := func(conn *pgx.Conn, number int64) {
		_, err := conn.Exec(t.Context(), "SELECT fencepost.admit('plain', $1, 'h')", number)
		require.NoError(t, err)
	}
	for round := range int64(rounds) {
		want, left := raised("admitted", func(conn *pgx.Conn) int64 {
			require.NoError(t, (&sqlguard.Guard{DB: conn}).Admit(t.Context(), token.Token{Resource: "admitted", Number: 33 + round, Holder: "h"}))
			after(conn, 100+2*round)
			return 33 + round
		})
		require.Equal(t, want, left, "Admit, round %d", round)
		want, left = raised("minted", func(conn *pgx.Conn) int64 {
			tok, err := sqlguard.Mint(t.Context(), conn, "minted", "h")
			require.NoError(t, err)
			after(conn, 101+2*round)
			return tok.Number
		})
		require.Equal(t, want, left, "Mint, round %d", round)
		want, left = raised("raised before", func(conn *pgx.Conn) int64 {
			_, err := conn.Exec(t.Context(), "SELECT fencepost.admit('raised before', $1, 'h')", 33+round)
			require.NoError(t, err)
			require.NoError(t, (&sqlguard.Guard{DB: conn}).Admit(t.Context(), token.Token{Resource: "raised before", Number: 33 + round, Holder: "h"}))
			return 33 + round
		})
		require.Equal(t, want, left, "Admit of a mark that was raised asynchronously, round %d", round)
		if mark("plain") < 101+2*round {
			lost++
		}
	}
	require.Positive(t, lost, "the twin, a plain admit, must be lost")
	t.Logf("the twin was lost in %d of %d rounds", lost, rounds)
}
