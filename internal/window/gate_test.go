package window_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/window"
	"github.com/fencepost/fencepost/token"
)

type visitor struct {
	window.Place
	calls int
}

func (v *visitor) Called() { v.calls++ }

func visit(number int64, holder string) *visitor {
	v := &visitor{}
	v.Token, v.Visitor = &token.Token{Resource: "account/42", Number: number, Holder: holder}, v
	return v
}

func TestTheGate(t *testing.T) {
	t.Parallel()
	var g window.Gate
	old, same, newer, newest := visit(33, "a"), visit(33, "a"), visit(34, "b"), visit(35, "c")
	for _, v := range []*visitor{old, same} {
		older, waits, err := g.Enter(&v.Place)
		require.NoError(t, err)
		require.Empty(t, older)
		require.False(t, waits, "one token's requests run at the same time")
	}
	older, waits, err := g.Enter(&newer.Place)
	require.NoError(t, err)
	require.True(t, waits)
	require.Equal(t, []*window.Place{&old.Place, &same.Place}, older)

	_, waits, err = g.Enter(&newest.Place)
	require.NoError(t, err)
	require.True(t, waits)
	require.Equal(t, 1, newer.calls, "it is called, and not inside")
	require.False(t, newer.Inside)

	_, _, err = g.Enter(&visit(34, "b").Place)
	require.ErrorIs(t, err, guard.ErrStale)
	g.Leave(&old.Place)
	require.Zero(t, newest.calls)
	g.Leave(&same.Place)
	require.Equal(t, 1, newest.calls)
	require.True(t, newest.Inside)
	g.Leave(&newest.Place)
	require.True(t, g.IsEmpty())
}

func TestEqualNumbersOfTwoHoldersTakeTurns(t *testing.T) {
	t.Parallel()
	var g window.Gate
	one, other := visit(33, "a"), visit(33, "b")
	_, waits, err := g.Enter(&one.Place)
	require.NoError(t, err)
	require.False(t, waits)
	older, waits, err := g.Enter(&other.Place)
	require.NoError(t, err)
	require.True(t, waits)
	require.Empty(t, older)
	g.Leave(&one.Place)
	require.True(t, other.Inside)
}

func TestAGateForgetsItsNumberWithItsLastVisitor(t *testing.T) {
	t.Parallel()
	var g window.Gate
	newer := visit(35, "c")
	_, _, err := g.Enter(&newer.Place)
	require.NoError(t, err)
	g.Leave(&newer.Place)
	_, waits, err := g.Enter(&visit(33, "a").Place)
	require.NoError(t, err, "what was highest last week is for the store to know")
	require.False(t, waits)
}

func TestAWaiterMayLeave(t *testing.T) {
	t.Parallel()
	var g window.Gate
	one, other := visit(33, "a"), visit(34, "b")
	for _, v := range []*visitor{one, other} {
		_, _, err := g.Enter(&v.Place)
		require.NoError(t, err)
	}
	g.Leave(&other.Place)
	g.Leave(&one.Place)
	require.Zero(t, other.calls)
	require.True(t, g.IsEmpty())
}
