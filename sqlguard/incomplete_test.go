package sqlguard_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// hazard G16
func TestIncompleteTokens(t *testing.T) {
	t.Parallel()
	t.Run("without holders, two processes pass for one", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.exec("ALTER TABLE accounts ADD token bigint NOT NULL DEFAULT 0")
		for _, writer := range []string{"A", "B", "A again"} {
			e.exec("UPDATE accounts SET writer = $1, token = 33 WHERE id = 42 AND token <= 33", writer)
			require.Equal(t, writer, e.writer(), "the twin must let both write")
		}
	})
	for _, tok := range []token.Token{
		{Resource: resource, Number: 33},
		{Resource: resource, Holder: "h"},
		{Resource: resource, Number: -1, Holder: "h"},
		{Resource: resource, Number: token.MaxNumber + 1, Holder: "h"},
		{Resource: resource, Number: 33, Holder: "a\nb"},
	} {
		t.Run(fmt.Sprintf("no door opens for number %d and holder %q", tok.Number, tok.Holder), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			ctx := token.NewContext(e.bounded(), tok)
			var refused int
			g := e.with(func(g *sqlguard.Guard) { g.Observer.Refused = func(context.Context, error) { refused++ } })
			for name, door := range doors(e, g) {
				require.ErrorIs(t, door(ctx, "x"), token.ErrInvalid, name)
			}
			require.ErrorIs(t, g.Admit(ctx, tok), token.ErrInvalid)
			require.Equal(t, len(doors(e, g)), refused, "all but the door that looks for itself, and Admit")
			require.Empty(t, e.writer())
			require.Empty(t, e.mark(resource))
		})
	}
}
