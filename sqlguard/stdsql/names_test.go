package stdsql_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// hazard G13
func TestNamesAreBytes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		names := []string{
			"x", "X", "x ", " x", "größe", "grosse", "grösse", "ключ/1", "鍵", "😀", "a'b", `a"b`, `a\b`, `a\'b`, "a`b", "a;b", "a--b", "%", "_",
			"'; DROP TABLE accounts; --", "{resource}", "$1", "?", "?1", ":x", "@x", "\u00a0", "e\u0301", "é", strings.Repeat("x", token.MaxName), strings.Repeat("ß", token.MaxName/2),
		}
		g := db.guard()
		for i, name := range names {
			tok := token.Token{Resource: name, Number: int64(i + 1), Holder: name}
			ctx := token.NewContext(t.Context(), tok)
			require.NoError(t, g.Update(ctx, name, add(ctx, 1)), "%q", name)
			require.NoError(t, g.Admit(ctx, tok), "%q", name)
			require.NoError(t, inTx(t, db, func(tx *sql.Tx) error { return g.Join(ctx, tx, name) }), "%q", name)

			stale := tok
			stale.Number--
			if stale.Number > 0 {
				var refusal *guard.StaleError
				require.ErrorAs(t, g.Update(token.NewContext(ctx, stale), name, add(ctx, 1)), &refusal, "%q", name)
				require.Equal(t, guard.Mark{Number: tok.Number, Holder: name}, refusal.Mark)
			}
			peer := tok
			peer.Holder = "another"
			require.ErrorIs(t, g.Update(token.NewContext(ctx, peer), name, add(ctx, 1)), guard.ErrCollision, "%q", name)
		}
		require.Equal(t, len(names), one[int](t, db, "SELECT count(*) FROM "+db.marks), "one mark each")
		require.Equal(t, 100+len(names), balance(t, db))
	})
}

func TestTokensThatAreIncompleteOrTooLong(t *testing.T) {
	t.Parallel()
	const most = 999_999_999_999_999
	onEach(t, func(t *testing.T, db *database) {
		g := db.guard()
		for _, tok := range []token.Token{
			{}, tok(0, "a"), tok(-1, "a"), tok(1, ""), tok(most+1, "a"), {Number: 1, Holder: "a"},
			tok(1, "a\nb"), tok(1, "\x00"), tok(1, "\xff"), {Resource: "a\tb", Number: 1, Holder: "a"},
			tok(1, strings.Repeat("x", token.MaxName+1)), {Resource: strings.Repeat("x", token.MaxName+1), Number: 1, Holder: "a"},
		} {
			ctx := token.NewContext(t.Context(), tok)
			require.ErrorIs(t, g.Admit(ctx, tok), token.ErrInvalid, "%+v", tok)
			require.ErrorIs(t, g.Update(ctx, tok.Resource, add(ctx, 1)), token.ErrInvalid, "%+v", tok)
			require.ErrorIs(t, inTx(t, db, func(tx *sql.Tx) error { return g.Join(ctx, tx, tok.Resource) }), token.ErrInvalid, "%+v", tok)
		}
		require.Zero(t, one[int](t, db, "SELECT count(*) FROM "+db.marks))

		last := holding(t, most, "a")
		require.NoError(t, g.Update(last, account, add(last, 1)))
		require.Equal(t, guard.Mark{Number: most, Holder: "a"}, db.mark(t, account))
		before := holding(t, most-1, "a")
		require.ErrorIs(t, g.Update(before, account, add(before, 1)), guard.ErrStale, "fifteen digits, to the last of them")
		require.Equal(t, 101, balance(t, db))
	})
}
