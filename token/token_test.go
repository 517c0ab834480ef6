package token_test

import (
	"math"
	"testing"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

func TestNewChecksEveryPart(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]struct {
		resource string
		number   int64
		holder   string
		text     string
	}{
		"no resource":       {"", 33, "a", `token: resource "" must not be empty`},
		"number zero":       {account, 0, "a", `token: number "0" must be 1 to 999999999999999`},
		"a negative number": {account, -33, "a", `token: number "-33" must be 1 to 999999999999999`},
		"the least number":  {account, math.MinInt64, "a", `token: number "-9223372036854775808" must be 1 to 999999999999999`},
		"sixteen digits":    {account, token.MaxNumber + 1, "a", `token: number "1000000000000000" must be 1 to 999999999999999`},
		"no holder":         {account, 33, "", `token: holder "" must not be empty`},
		"a bad holder":      {account, 33, "a\n", `token: holder "a\n" must not contain control characters`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tok, err := token.New(bad.resource, bad.number, bad.holder)
			require.Zero(t, tok)
			require.ErrorIs(t, err, token.ErrInvalid)
			require.EqualError(t, err, bad.text)
			require.Equal(t, err, token.Token{Resource: bad.resource, Number: bad.number, Holder: bad.holder}.Check())
		})
	}
}

func TestATokenIsAValue(t *testing.T) {
	t.Parallel()
	for _, number := range []int64{1, 33, token.MaxNumber} {
		tok, err := token.New(account, number, "worker-1")
		require.NoError(t, err)
		require.NoError(t, tok.Check())
		require.Equal(t, tok, token.Token{Resource: account, Number: number, Holder: "worker-1"})
	}
	require.Equal(t, "account/42#33", token.Token{Resource: account, Number: 33, Holder: "worker-1"}.String())
	require.ErrorIs(t, token.Token{}.Check(), token.ErrInvalid)
}

// hazard G16
func TestATokenWithoutAHolderIsRefused(t *testing.T) {
	t.Parallel()
	_, err := token.New(account, 33, "")
	require.ErrorIs(t, err, token.ErrInvalid)

	one := token.Token{Resource: account, Number: 33}   // made by hand in one process
	other := token.Token{Resource: account, Number: 33} // and in another
	var marks guard.Memory
	require.ErrorIs(t, marks.Admit(t.Context(), one), token.ErrInvalid)
	_, err = token.FromContext(token.NewContext(t.Context(), one), account)
	require.ErrorIs(t, err, token.ErrInvalid)

	// The twin compares whatever it is given: the two processes are one to it.
	naive := func(mark guard.Mark, tok token.Token) bool {
		return tok.Number > mark.Number || tok.Number == mark.Number && tok.Holder == mark.Holder
	}
	require.True(t, naive(guard.Mark{}, one))
	require.True(t, naive(guard.Mark{Number: one.Number, Holder: one.Holder}, other))
}

// hazard W9
func TestASixteenDigitNumberIsRefusedWhereItIsMade(t *testing.T) {
	t.Parallel()
	const microseconds = 1_795_169_774_814_316
	_, err := token.New(account, microseconds, "worker-1")
	require.ErrorIs(t, err, token.ErrInvalid)

	tok, err := token.New(account, microseconds/10, "worker-1")
	require.NoError(t, err)
	_, err = tok.MarshalText()
	require.NoError(t, err)

	// The twin finds out when its first token is to be sent.
	_, err = httpsfv.Marshal(httpsfv.NewItem(int64(microseconds)))
	require.Error(t, err)
}
