package httpguard_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

func TestSealsAreSentAndReadBack(t *testing.T) {
	t.Parallel()
	endless := sealedToken()
	endless.Token.Resource, endless.Until = "größe", 0
	plain := seal.Sealed{Token: tok("account/7", 34, "a")}
	for name, test := range map[string]struct {
		all  []seal.Sealed
		want string
	}{
		"none":                   {nil, ""},
		"one with an end":        {[]seal.Sealed{sealedToken()}, sealedLine},
		"one without an end":     {[]seal.Sealed{endless}, strings.NewReplacer(`"account/42"`, `%"gr%c3%b6%c3%9fe"`, ";x=1795169774", "").Replace(sealedLine)},
		"a sealed and a plain":   {[]seal.Sealed{sealedToken(), plain}, sealedLine + `, 34;r="account/7";h="a"`},
		"a plain one, as Format": {[]seal.Sealed{plain}, `34;r="account/7";h="a"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := httpguard.FormatSealed(test.all...)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			back, err := httpguard.ParseSealed([]string{got})
			require.NoError(t, err)
			require.Equal(t, test.all, back)
		})
	}
}

func TestACodeOfAnotherLengthIsASealThatNobodyMade(t *testing.T) {
	t.Parallel()
	ring, err := seal.New(seal.Key{ID: "2026-11", Secret: make([]byte, seal.MinSecret)})
	require.NoError(t, err)
	for name, code := range map[string]string{"none": "", "3 bytes": "AQID", "31 bytes": strings.Repeat("AQID", 10) + "AA==", "33 bytes": strings.Repeat("AQID", 11)} {
		all, err := httpguard.ParseSealed([]string{`33;r="account/42";h="a";k="2026-11";s=:` + code + `:`})
		require.NoError(t, err, name)
		require.Equal(t, []seal.Sealed{{Token: tok("account/42", 33, "a"), Key: "2026-11"}}, all)
		require.ErrorIs(t, ring.Verify(all[0]), token.ErrSeal)
	}
}

func TestFormatSealedRefuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*seal.Sealed){
		"the zero token":           func(s *seal.Sealed) { *s = seal.Sealed{} },
		"a number that is too big": func(s *seal.Sealed) { s.Token.Number = token.MaxNumber + 1 },
		"a code without a key":     func(s *seal.Sealed) { s.Key = "" },
		"a key that is no id":      func(s *seal.Sealed) { s.Key = `"` },
		"a negative end":           func(s *seal.Sealed) { s.Until = -1 },
		"an end that is too late":  func(s *seal.Sealed) { s.Until = token.MaxNumber + 1 },
		"two of one resource":      func(s *seal.Sealed) { s.Token.Resource = "account/7" },
	} {
		s := sealedToken()
		spoil(&s)
		text, err := httpguard.FormatSealed(seal.Sealed{Token: tok("account/7", 34, "a")}, s)
		require.Empty(t, text, name)
		var header *httpguard.HeaderError
		require.ErrorAs(t, err, &header, name)
		require.Equal(t, 2, header.Member)
		require.ErrorIs(t, err, token.ErrInvalid)
	}
	_, err := httpguard.FormatSealed(make([]seal.Sealed, httpguard.MaxMembers+1)...)
	require.ErrorIs(t, err, token.ErrInvalid)
}
