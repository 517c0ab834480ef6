package httpguard_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/token"
)

const signedLine = `33;r="account/42";h="a";k="2026-11";x=1795169774;s=:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=:`

// signedToken is the token in signedLine. Its signature is well-formed, and of no key.
func signedToken() signature.Signed {
	s := signature.Signed{Token: tok("account/42", 33, "a"), Key: "2026-11", Until: 1795169774}
	for i := range s.Code {
		s.Code[i] = byte(i + 1)
	}
	return s
}

func tok(resource string, number int64, holder string) token.Token {
	return token.Token{Resource: resource, Number: number, Holder: holder}
}

func TestSixteenDigitsAreNoInteger(t *testing.T) {
	t.Parallel()
	// hazard W9
	const naive = `%d;r="account/42";h="a"`
	micros := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).UnixMicro()

	// The naive issuer counts microseconds: a conforming parser rejects them.
	_, err := httpsfv.UnmarshalList([]string{fmt.Sprintf(naive, micros)})
	require.ErrorIs(t, err, httpsfv.ErrNumberOutOfRange)
	_, err = httpguard.Parse([]string{fmt.Sprintf(naive, micros)})
	require.ErrorIs(t, err, token.ErrInvalid)
	_, err = httpguard.Format(tok("account/42", micros, "a"))
	require.ErrorIs(t, err, token.ErrInvalid)

	text, err := httpguard.Format(tok("account/42", micros/10, "a"))
	require.NoError(t, err)
	got, err := httpguard.Parse([]string{text})
	require.NoError(t, err)
	require.Equal(t, []token.Token{tok("account/42", micros/10, "a")}, got)
}

func TestParseWrapsTheError(t *testing.T) {
	t.Parallel()
	_, err := httpguard.Parse([]string{`0;r="a";h="b"`})
	var invalid *token.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "number", invalid.Part)

	_, err = httpguard.Parse([]string{`1,`})
	require.ErrorIs(t, err, httpsfv.ErrInvalidListFormat)
}

func TestACodeOfAnotherLengthIsABadSignature(t *testing.T) {
	t.Parallel()
	keyring, err := signature.New(signature.Key{ID: "2026-11", Secret: make([]byte, signature.MinSecret)})
	require.NoError(t, err)
	for name, code := range map[string]string{"none": "", "3 bytes": "AQID", "31 bytes": strings.Repeat("AQID", 10) + "AA==", "33 bytes": strings.Repeat("AQID", 11)} {
		all, err := httpguard.ParseSigned([]string{`33;r="account/42";h="a";k="2026-11";s=:` + code + `:`})
		require.NoError(t, err, name)
		require.Equal(t, []signature.Signed{{Token: tok("account/42", 33, "a"), Key: "2026-11"}}, all)
		require.ErrorIs(t, keyring.Verify(all[0]), token.ErrBadSignature)
	}
}

func TestFormatRefuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*signature.Signed){
		"the zero token":          func(s *signature.Signed) { *s = signature.Signed{} },
		"a code without a key":    func(s *signature.Signed) { s.Key = "" },
		"a key that is no id":     func(s *signature.Signed) { s.Key = `"` },
		"a negative end":          func(s *signature.Signed) { s.Until = -1 },
		"an end that is too late": func(s *signature.Signed) { s.Until = token.MaxNumber + 1 },
		"two of one resource":     func(s *signature.Signed) { s.Token.Resource = "account/7" },
	} {
		s := signedToken()
		spoil(&s)
		text, err := httpguard.FormatSigned(signature.Signed{Token: tok("account/7", 34, "a")}, s)
		require.Empty(t, text, name)
		var header *httpguard.HeaderError
		require.ErrorAs(t, err, &header, name)
		require.Equal(t, 2, header.Member)
		require.ErrorIs(t, err, token.ErrInvalid)
	}
	most := make([]token.Token, httpguard.MaxMembers)
	for i := range most {
		most[i] = tok(fmt.Sprintf("account/%d", i), 1, "a")
	}
	text, err := httpguard.Format(most...)
	require.NoError(t, err)
	back, err := httpguard.Parse([]string{text})
	require.NoError(t, err)
	require.Equal(t, most, back)
	_, err = httpguard.FormatSigned(make([]signature.Signed, httpguard.MaxMembers+1)...)
	require.ErrorContains(t, err, "must have at most 64 members")
	wide := make([]token.Token, 10)
	for i := range wide {
		wide[i] = tok(strings.Repeat("ö", 99)+strconv.Itoa(i), 1, strings.Repeat("ö", 100))
	}
	_, err = httpguard.Format(wide...)
	require.ErrorContains(t, err, "must be at most 8192 bytes")
}
