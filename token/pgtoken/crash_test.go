package pgtoken_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// hazard P3
func TestNumbersSurviveACrash(t *testing.T) {
	t.Parallel()
	spare := migratedSpare(t)
	for round := range 6 {
		name := fmt.Sprintf("account/%d", round)
		naive := fmt.Sprintf("naive_%d", round)
		sure := session(t, spare.URL(), "on")
		exec(t, sure, "CREATE SEQUENCE "+naive)
		// The row is ahead of the clock, so that the clock cannot help.
		exec(t, sure, "INSERT INTO fencepost.leases VALUES ($1, $2, '', '-infinity')", name, clock()+360_000_000)

		hasty := session(t, spare.URL(), "off")
		grant, err := (&pgtoken.Issuer{DB: hasty}).Acquire(t.Context(), name, "before", long)
		require.NoError(t, err)
		drawn := query[int64](t, hasty, "SELECT nextval($1::text::regclass)", naive)
		spare.Crash()

		after := session(t, spare.URL(), "off")
		require.Equal(t, drawn, query[int64](t, after, "SELECT nextval($1::text::regclass)", naive),
			"the naive number must be issued again")
		remembers(t, &pgtoken.Issuer{DB: after}, grant.Token)
	}
}

// hazard P3
func TestHandedOverNumbersSurviveACrash(t *testing.T) {
	t.Parallel()
	spare := migratedSpare(t)
	for round := range 3 {
		name := fmt.Sprintf("account/%d", round)
		sure := session(t, spare.URL(), "on")
		exec(t, sure, "INSERT INTO fencepost.leases VALUES ($1, $2, '', '-infinity')", name, clock()+360_000_000)
		hasty := session(t, spare.URL(), "off")
		iss := &pgtoken.Issuer{DB: hasty}
		first, err := iss.Acquire(t.Context(), name, "first", long)
		require.NoError(t, err)
		enter := "SELECT fencepost.ask($1, 'before', '1 h', false, 0, 0, '1 h')" // one that polls
		require.Contains(t, query[string](t, sure, enter, name), " first")
		require.NoError(t, iss.Release(t.Context(), first.Token))
		handed := token.Token{Resource: name, Holder: "before", Number: query[int64](t, sure, "SELECT number FROM fencepost.leases WHERE resource = $1", name)}
		// The twin: a release that hands nothing over may be forgotten.
		exec(t, sure, "INSERT INTO fencepost.leases VALUES ($1, 1, 'a', 'infinity')", name+" twin")
		require.NoError(t, iss.Release(t.Context(), token.Token{Resource: name + " twin", Number: 1, Holder: "a"}))
		spare.Crash()

		after := session(t, spare.URL(), "off")
		remembers(t, &pgtoken.Issuer{DB: after}, handed)
		require.Equal(t, "a", query[string](t, after, "SELECT holder FROM fencepost.leases WHERE resource = $1", name+" twin"))
	}
}

// migratedSpare is a server that may be crashed.
func migratedSpare(t *testing.T) *testenv.Spare {
	t.Helper()
	spare := testenv.SparePostgres(t)
	testenv.Migrate(t, spare.URL())
	return spare
}

func remembers(t *testing.T, iss *pgtoken.Issuer, tok token.Token) {
	t.Helper()
	_, err := iss.Acquire(t.Context(), tok.Resource, "after", long)
	var held *token.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, tok.Holder, held.Holder)
	again, err := iss.Acquire(t.Context(), tok.Resource, tok.Holder, long)
	require.NoError(t, err)
	require.Equal(t, tok, again.Token)
	require.NoError(t, iss.Release(t.Context(), tok))
	next, err := iss.Acquire(t.Context(), tok.Resource, "after", long)
	require.NoError(t, err)
	require.Greater(t, next.Token.Number, tok.Number)
}

// session is a connection that a crash may end.
func session(t *testing.T, url, synchronousCommit string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	config.RuntimeParams["synchronous_commit"] = synchronousCommit
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) }) // an error only says that the crash closed it
	return conn
}
