package tokentest_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/tokentest"
)

func TestContextCarriesAValidTokenPerResource(t *testing.T) {
	t.Parallel()
	ctx := tokentest.Context(t, "account/42", "konto/größe")
	for _, resource := range []string{"account/42", "konto/größe"} {
		tok, err := token.FromContext(ctx, resource)
		require.NoError(t, err)
		require.Equal(t, resource, tok.Resource)
		require.NoError(t, tok.Validate())
	}
	_, err := token.FromContext(ctx, "account/43")
	require.ErrorIs(t, err, token.ErrMissing)
}

func TestALaterContextIsASuccessor(t *testing.T) {
	t.Parallel()
	var marks guard.Memory
	zombie, err := token.FromContext(tokentest.Context(t, "account/42"), "account/42")
	require.NoError(t, err)
	successor, err := token.FromContext(tokentest.Context(t, "account/42"), "account/42")
	require.NoError(t, err)
	require.NoError(t, marks.Admit(t.Context(), zombie))
	require.NoError(t, marks.Admit(t.Context(), successor))
	require.ErrorIs(t, marks.Admit(t.Context(), zombie), guard.ErrStale)
}

func TestContextEndsWithTheTest(t *testing.T) {
	t.Parallel()
	var ctx context.Context
	t.Run("inner", func(t *testing.T) { ctx = tokentest.Context(t, "account/42") })
	require.ErrorIs(t, ctx.Err(), context.Canceled)
}

func TestContextFailsTheTestForABadName(t *testing.T) {
	t.Parallel()
	fatal := &fatalTB{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		tokentest.Context(fatal, "")
	}()
	<-done
	require.Equal(t, `token: resource "" must not be empty`, fatal.message)
}

// fatalTB records the arguments of Fatal.
type fatalTB struct {
	testing.TB
	message string
}

func (f *fatalTB) Fatal(args ...any) {
	f.message = fmt.Sprint(args...)
	runtime.Goexit()
}
