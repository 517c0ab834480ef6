package httpguard_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// FuzzParse reads lines, and writes and reads again what it could read.
func FuzzParse(f *testing.F) {
	f.Add(`33;r="account/42";h="a"`)
	f.Add("33;r=\"account/42\";h=\"a\"\n34;r=%\"gr%c3%b6%c3%9fe\";h=\"a\"")
	for _, test := range malformed {
		f.Add(strings.Join(test.lines, "\n"))
	}
	f.Fuzz(func(t *testing.T, lines string) {
		toks, err := httpguard.Parse(strings.Split(lines, "\n"))
		if err != nil {
			var header *httpguard.HeaderError
			require.ErrorAs(t, err, &header)
			require.ErrorIs(t, err, token.ErrInvalid)
			require.Empty(t, toks)
			return
		}
		seen := map[string]bool{}
		for _, tok := range toks {
			require.NoError(t, tok.Check())
			require.False(t, seen[tok.Resource], "two tokens of %s", tok.Resource)
			seen[tok.Resource] = true
		}
		// Format sets a space behind each comma, where the text may have none.
		if len(lines) > httpguard.MaxBytes-2*httpguard.MaxMembers {
			return
		}
		text, err := httpguard.Format(toks...)
		require.NoError(t, err)
		again, err := httpguard.Parse([]string{text})
		require.NoError(t, err)
		require.Equal(t, toks, again)
	})
}

// FuzzFormat writes any token that is complete, and reads it.
func FuzzFormat(f *testing.F) {
	f.Add("account/42", int64(33), "a")
	f.Add("größe\"\\", int64(token.MaxNumber), "%")
	f.Add("\xff", int64(0), "\x7f")
	f.Fuzz(func(t *testing.T, resource string, number int64, holder string) {
		tok := token.Token{Resource: resource, Number: number, Holder: holder}
		text, err := httpguard.Format(tok)
		if tok.Check() != nil {
			require.ErrorIs(t, err, token.ErrInvalid)
			return
		}
		require.NoError(t, err)
		again, err := httpguard.Parse([]string{text})
		require.NoError(t, err)
		require.Equal(t, []token.Token{tok}, again)
	})
}
