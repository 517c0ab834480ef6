package token_test

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

func TestErrorsCarryFactsAndTheirSentinel(t *testing.T) {
	t.Parallel()
	tok := token.Token{Resource: account, Number: 33, Holder: "a"}
	invalid := &token.InvalidError{Part: "holder", Value: "x", Rule: "must not be empty"}
	require.EqualError(t, invalid, `token: holder "x" must not be empty`)
	require.ErrorIs(t, invalid, token.ErrInvalid)

	missing := &token.MissingError{Resource: account}
	require.EqualError(t, missing, "token: no token for account/42 in context (it carries: none)")
	require.ErrorIs(t, missing, token.ErrMissing)
	missing.Have = []string{"a", "b"}
	require.EqualError(t, missing, "token: no token for account/42 in context (it carries: a, b)")

	held := &token.HeldError{Resource: account, Holder: "billing:7:1:c2", Remaining: time.Second}
	require.EqualError(t, held, `token: account/42 is held by "billing:7:1:c2" for up to 1s`)
	require.ErrorIs(t, held, token.ErrHeld)

	lost := &token.LostError{Token: tok}
	require.EqualError(t, lost, "token: lease on account/42#33 lost")
	require.ErrorIs(t, lost, token.ErrLost)
	lost.Err = io.ErrUnexpectedEOF
	require.EqualError(t, lost, "token: lease on account/42#33 lost: unexpected EOF")
	require.ErrorIs(t, lost, token.ErrLost)
	require.ErrorIs(t, lost, io.ErrUnexpectedEOF)
}
