package simulations_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// Grants and claims before and after a crash of the server are checked as one history, in
// sessions that commit asynchronously.
func TestNumbersAndMarksAcrossCrashes(t *testing.T) {
	t.Parallel()
	spare := testenv.SparePostgres(t)
	testenv.Migrate(t, spare.URL())

	t.Run("neither repeats nor falls", func(t *testing.T) { // hazard P3 G26
		require.Empty(t, crashes(t, spare, acquireAndAdmit))
	})
	t.Run("a bare sequence repeats, a plain upsert falls", func(t *testing.T) {
		var broken []string
		for _, v := range crashes(t, spare, nextvalAndUpsert) {
			broken = append(broken, v.Rule.ID)
		}
		require.Contains(t, broken, "mark")
		require.Contains(t, broken, "numbers")
	})
}

// claims grants a number for resource, raises the mark to it, and records both.
type claims func(t *testing.T, conn *pgx.Conn, r *history.Recorder, resource, holder string)

// crashes makes a claim, crashes the server and reads the mark, three times.
func crashes(t *testing.T, spare *testenv.Spare, claim claims) []history.Violation {
	t.Helper()
	r := history.NewRecorder()
	for _, holder := range []string{"a", "b", "c"} {
		conn := asynchronous(t, spare)
		claim(t, conn, r, t.Name(), holder)
		spare.Crash()
		_ = conn.Close(t.Context())
		look(t, asynchronous(t, spare), r, t.Name())
	}
	broken, err := history.Check(r.History())
	require.NoError(t, err)
	for _, v := range broken {
		t.Log(v)
	}
	return broken
}

func acquireAndAdmit(t *testing.T, conn *pgx.Conn, r *history.Recorder, resource, holder string) {
	t.Helper()
	asked := r.Begin(history.Op{Kind: history.Acquire, Writer: holder, Resource: resource, Holder: holder})
	grant, err := (&pgtoken.Issuer{DB: conn}).Acquire(t.Context(), resource, holder, time.Millisecond)
	require.NoError(t, err)
	claim(t, r, asked, grant.Token, func(ctx context.Context) error {
		return (&sqlguard.Guard{DB: conn}).Admit(ctx, grant.Token)
	})
}

func nextvalAndUpsert(t *testing.T, conn *pgx.Conn, r *history.Recorder, resource, holder string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), "CREATE SEQUENCE IF NOT EXISTS bare; SET synchronous_commit = on; SELECT txid_current(); SET synchronous_commit = off")
	require.NoError(t, err)
	asked := r.Begin(history.Op{Kind: history.Acquire, Writer: holder, Resource: resource, Holder: holder})
	tok := token.Token{Resource: resource, Holder: holder}
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT nextval('bare')").Scan(&tok.Number))
	claim(t, r, asked, tok, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, `INSERT INTO fencepost.marks AS m (resource, number, holder) VALUES ($1, $2, $3)
			ON CONFLICT (resource) DO UPDATE SET number = $2, holder = $3 WHERE m.number < $2`, resource, tok.Number, holder)
		return err
	})
}

// claim records the grant of tok, and raises the mark.
func claim(t *testing.T, r *history.Recorder, asked *history.Open, tok token.Token, raise func(context.Context) error) {
	t.Helper()
	asked.End(history.Accepted, func(op *history.Op) { op.Number = tok.Number })
	claimed := r.Begin(history.Op{
		Kind: history.Claim, Writer: tok.Holder, Resource: tok.Resource, Number: tok.Number, Holder: tok.Holder,
	})
	require.NoError(t, raise(t.Context()))
	claimed.End(history.Accepted, nil)
}

func look(t *testing.T, conn *pgx.Conn, r *history.Recorder, resource string) {
	t.Helper()
	op := r.Begin(history.Op{Kind: history.Mark, Writer: "judge", Resource: resource})
	var number int64
	var holder string
	require.NoError(t, conn.QueryRow(t.Context(),
		"SELECT coalesce(max(number), 0), coalesce(max(holder), '') FROM fencepost.marks WHERE resource = $1", resource).Scan(&number, &holder))
	op.End(history.Accepted, func(op *history.Op) { op.Number, op.Holder = number, holder })
}

func asynchronous(t *testing.T, spare *testenv.Spare) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), spare.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	_, err = conn.Exec(t.Context(), "SET synchronous_commit = off")
	require.NoError(t, err)
	return conn
}
