package seal_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

func TestTheTextOfASealIsReadBack(t *testing.T) {
	t.Parallel()
	r := ring(t, key("2026-11", 'a'))
	for name, until := range map[string]time.Time{"without an end": {}, "with an end": time.Unix(1795169774, 0)} {
		s, err := r.Seal(account, until)
		require.NoError(t, err, name)
		text, err := s.MarshalText()
		require.NoError(t, err)
		var read seal.Sealed
		require.NoError(t, read.UnmarshalText(text))
		require.Equal(t, s, read)

		var tok token.Token // who knows of no seals reads the token
		require.NoError(t, tok.UnmarshalText(text))
		require.Equal(t, account, tok)
	}
}

func TestAnUnsealedTokenHasItsOwnText(t *testing.T) {
	t.Parallel()
	text, err := seal.Sealed{Token: account}.MarshalText()
	require.NoError(t, err)
	require.Equal(t, `33;r="account/42";h="c2f1"`, string(text))
	var read seal.Sealed
	require.NoError(t, read.UnmarshalText(text))
	require.Equal(t, seal.Sealed{Token: account}, read)
}

func TestJSONHoldsASealAsAString(t *testing.T) {
	t.Parallel()
	type job struct{ Sealed seal.Sealed }
	s, err := ring(t, key("2026-11", 'a')).Seal(account, time.Unix(1795169774, 0))
	require.NoError(t, err)
	text, err := json.Marshal(job{s})
	require.NoError(t, err)
	var read job
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, job{s}, read)
}

func TestASealThatCannotBeWrittenHasNoText(t *testing.T) {
	t.Parallel()
	good, err := ring(t, key("2026-11", 'a')).Seal(account, time.Time{})
	require.NoError(t, err)
	for name, spoil := range map[string]func(*seal.Sealed){
		"the zero token":            func(s *seal.Sealed) { s.Token = token.Token{} },
		"a code without a key":      func(s *seal.Sealed) { s.Key = "" },
		"an end without a key":      func(s *seal.Sealed) { *s = seal.Sealed{Token: account, Until: 1} },
		"a key that is no id":       func(s *seal.Sealed) { s.Key = "2026 11" },
		"a negative end":            func(s *seal.Sealed) { s.Until = -1 },
		"an end of sixteen digits":  func(s *seal.Sealed) { s.Until = token.MaxNumber + 1 },
		"a key that is not in UTF8": func(s *seal.Sealed) { s.Key = "\xff" },
	} {
		s := good
		spoil(&s)
		text, err := s.MarshalText()
		require.ErrorIs(t, err, token.ErrInvalid, name)
		require.Empty(t, text)
		silent(t, err.Error(), good.Code[:])
	}
}

func TestHostileTextIsRefusedAndTellsNothing(t *testing.T) {
	t.Parallel()
	before, err := ring(t, key("2026-11", 'a')).Seal(account, time.Time{})
	require.NoError(t, err)
	good, err := before.MarshalText()
	require.NoError(t, err)
	for name, text := range map[string]string{
		"nothing":              "",
		"something behind it":  string(good) + " x",
		"two of them":          string(good) + ", " + string(good),
		"a cut text":           string(good[:len(good)-2]),
		"no number":            string(good[2:]),
		"no resource":          strings.Replace(string(good), "r=", "q=", 1),
		"an empty resource":    strings.Replace(string(good), account.Resource, "", 1),
		"no key":               strings.Replace(string(good), "k=", "q=", 1),
		"no code":              strings.Replace(string(good), "s=", "q=", 1),
		"a line in a name":     strings.Replace(string(good), "account/42", "account\n42", 1),
		"a code in capitals":   strings.Replace(string(good), "s=", "S=", 1),
		"an end that is zero":  string(good) + ";x=0",
		"a key given again":    string(good) + `;k=1`,
		"a code that is a Key": string(good) + ";s",
	} {
		s := before
		err := s.UnmarshalText([]byte(text))
		require.ErrorIs(t, err, token.ErrInvalid, name)
		require.Equal(t, before, s)
		silent(t, err.Error(), before.Code[:])
	}
}
