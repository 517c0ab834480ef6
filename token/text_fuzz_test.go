package token_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

// Text that parses is a complete token, and formatting and parsing it is the identity.
func FuzzUnmarshalText(f *testing.F) {
	for _, text := range []string{
		`33;r="account/42";h="worker-1"`, `33;r=%"gr%c3%b6%c3%9fe";h="a"`, `33;h="a";r="b";x=1;r="c"`,
		`999999999999999;r="\"\\";h=" "`, `1795169774814316;r="r";h="h"`, `33.0;r="r";h="h"`, ` 1 ; r="r";h="h"`, ``,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var tok token.Token
		if err := tok.UnmarshalText(text); err != nil {
			require.ErrorIs(t, err, token.ErrInvalid)
			require.Zero(t, tok)
			return
		}
		require.NoError(t, tok.Validate())
		readBack(t, tok)
	})
}

// A token that New accepts is formatted in ASCII, and parsing returns the same token.
func FuzzMarshalText(f *testing.F) {
	f.Add("account/42", int64(33), "worker-1")
	f.Add("gr\u00f6\u00dfe", int64(token.MaxNumber), `a"\%`)
	f.Add("\u2028", int64(1), "\ufffd")
	f.Fuzz(func(t *testing.T, resource string, number int64, holder string) {
		tok, err := token.New(resource, number, holder)
		if err != nil {
			require.ErrorIs(t, err, token.ErrInvalid)
			return
		}
		readBack(t, tok)
	})
}

func readBack(t *testing.T, tok token.Token) {
	t.Helper()
	text, err := tok.MarshalText()
	require.NoError(t, err)
	for _, b := range text {
		require.True(t, ' ' <= b && b <= '~', "%q is no header field", text)
	}
	var read token.Token
	require.NoError(t, read.UnmarshalText(text))
	require.Equal(t, tok, read)
}
