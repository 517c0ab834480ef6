package guard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

const account = "account/42"

func tok(number int64, holder string) token.Token {
	return token.Token{Resource: account, Number: number, Holder: holder}
}

func TestMarkAdmits(t *testing.T) {
	t.Parallel()
	mark := guard.Mark{Number: 33, Holder: "a"}
	for _, c := range []struct {
		name string
		mark guard.Mark
		tok  token.Token
		want error
	}{
		{"the zero mark admits the least number", guard.Mark{}, tok(1, "a"), nil},
		{"the zero mark admits the greatest number", guard.Mark{}, tok(token.MaxNumber, "a"), nil},
		{"a greater number of another holder is admitted", mark, tok(34, "b"), nil},
		{"a greater number of the same holder is admitted", mark, tok(34, "a"), nil},
		{"the holder's second write is admitted", mark, tok(33, "a"), nil},
		{"an equal number of another holder collides", mark, tok(33, "b"), guard.ErrCollision},
		{"a holder that only begins alike collides", mark, tok(33, "ab"), guard.ErrCollision},
		{"a lesser number is stale", mark, tok(32, "b"), guard.ErrStale},
		{"a lesser number of the same holder is stale", mark, tok(32, "a"), guard.ErrStale},
		{"a number that is less only as text is admitted", guard.Mark{Number: 9, Holder: "a"}, tok(10, "b"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.ErrorIs(t, c.mark.Admits(c.tok), c.want)
		})
	}
}

func TestMarkRefusesWithTheFacts(t *testing.T) {
	t.Parallel()
	mark := guard.Mark{Number: 33, Holder: "a"}
	require.Equal(t, &guard.StaleError{Token: tok(32, "b"), Mark: mark}, mark.Admits(tok(32, "b")))
}

// hazard G4
func TestOneComparisonIsNotEnough(t *testing.T) {
	t.Parallel()
	mark := guard.Mark{Number: 33, Holder: "a"}
	second, impostor := tok(33, "a"), tok(33, "b")

	less := func(tok token.Token) bool { return mark.Number < tok.Number }
	lessOrEqual := func(tok token.Token) bool { return mark.Number <= tok.Number }
	require.False(t, less(second), "the twin must refuse the holder's own second write")
	require.True(t, lessOrEqual(impostor), "the twin must let the impostor in")

	require.NoError(t, mark.Admits(second))
	require.ErrorIs(t, mark.Admits(impostor), guard.ErrCollision)
}

// hazard G5
func TestOrderDecidesAndNotEquality(t *testing.T) {
	t.Parallel()
	mark := guard.Mark{Number: 33, Holder: "a"}
	successor, zombie := tok(34, "b"), tok(33, "a")

	equal := func(tok token.Token) bool { return mark == guard.Mark{Number: tok.Number, Holder: tok.Holder} }
	require.False(t, equal(successor), "the twin must refuse the new holder")
	require.True(t, equal(zombie), "the twin must admit the old one, for as long as the new one could not write")

	require.NoError(t, mark.Admits(successor))
	mark = guard.Mark{Number: 34, Holder: "b"}
	require.ErrorIs(t, mark.Admits(zombie), guard.ErrStale)
}

// hazard G16
func TestIncompleteTokensAreRefusedAsSuch(t *testing.T) {
	t.Parallel()
	one, other := tok(33, ""), tok(33, "") // of two processes
	require.True(t, one == other, "compared as they are, the two must pass for one")

	for _, mark := range []guard.Mark{{}, {Number: 33}, {Number: 33, Holder: "a"}} {
		for _, bad := range []token.Token{{}, one, tok(0, "a"), tok(-1, "a"), tok(token.MaxNumber+1, "a"), {Number: 34, Holder: "a"}} {
			err := mark.Admits(bad)
			require.ErrorIs(t, err, token.ErrInvalid)
			require.NotErrorIs(t, err, guard.ErrStale)
		}
	}
}

func TestAMarkThatWasRaisedIsTheTokens(t *testing.T) {
	t.Parallel()
	mark := guard.Mark{Number: 33, Holder: "a"}
	raised, err := mark.Raised(tok(34, "b"))
	require.NoError(t, err)
	require.Equal(t, guard.Mark{Number: 34, Holder: "b"}, raised)
	for _, refused := range []token.Token{tok(32, "a"), tok(33, "b"), tok(34, "")} {
		same, err := mark.Raised(refused)
		require.Error(t, err)
		require.Equal(t, mark, same)
	}
}
