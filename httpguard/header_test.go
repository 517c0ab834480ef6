package httpguard_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

const sealedLine = `33;r="account/42";h="a";k="2026-11";x=1795169774;s=:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=:`

// sealedToken is what sealedLine says: no seal of any key, but one of good form.
func sealedToken() seal.Sealed {
	s := seal.Sealed{Token: tok("account/42", 33, "a"), Key: "2026-11", Until: 1795169774}
	for i := range s.Code {
		s.Code[i] = byte(i + 1)
	}
	return s
}

func tok(resource string, number int64, holder string) token.Token {
	return token.Token{Resource: resource, Number: number, Holder: holder}
}

func TestParse(t *testing.T) {
	t.Parallel()
	one, other := tok("account/42", 33, "a"), tok("account/7", 34, "a")
	for name, test := range map[string]struct {
		lines []string
		want  []token.Token
	}{
		"no line is no token":                       {nil, nil},
		"an empty line is no token":                 {[]string{""}, nil},
		"one token":                                 {[]string{`33;r="account/42";h="a"`}, []token.Token{one}},
		"two tokens in one line":                    {[]string{`33;r="account/42";h="a", 34;r="account/7";h="a"`}, []token.Token{one, other}},
		"two tokens without a space":                {[]string{`33;r="account/42";h="a",34;r="account/7";h="a"`}, []token.Token{one, other}},
		"several lines are one list":                {[]string{`33;r="account/42";h="a"`, `34;r="account/7";h="a"`}, []token.Token{one, other}},
		"the order of parameters does not matter":   {[]string{`33;h="a";r="account/42"`}, []token.Token{one}},
		"unknown parameters are passed over":        {[]string{`33;r="account/42";seal=:AAA=:;h="a";y`}, []token.Token{one}},
		"the parameters of a seal":                  {[]string{sealedLine, `34;r="account/7";h="a"`}, []token.Token{one, other}},
		"of a parameter given twice the last holds": {[]string{`33;r="account/7";r="account/42";h="a"`}, []token.Token{one}},
		"a Display String is not only for accents":  {[]string{`33;r=%"account/42";h="a"`}, []token.Token{one}},
		"a Display String":                          {[]string{`1;r=%"konto/gr%c3%b6%c3%9fe";h="a"`}, []token.Token{tok("konto/größe", 1, "a")}},
		"quotes and backslashes":                    {[]string{`1;r="a\"b\\c";h="a"`}, []token.Token{tok(`a"b\c`, 1, "a")}},
		"a comma in a name":                         {[]string{`1;r="a,b";h="a"`}, []token.Token{tok("a,b", 1, "a")}},
		"fifteen digits":                            {[]string{`999999999999999;r="a";h="b"`}, []token.Token{tok("a", token.MaxNumber, "b")}},
		"spaces around the list":                    {[]string{`  33;r="account/42";h="a"  `}, []token.Token{one}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := httpguard.Parse(test.lines)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

func TestParseBounds(t *testing.T) {
	t.Parallel()
	padded := func(n int) string {
		open := `1;r="a";h="b";y="`
		return open + strings.Repeat("x", n-len(open)-1) + `"`
	}
	_, err := httpguard.Parse([]string{padded(httpguard.MaxBytes)})
	require.NoError(t, err)
	_, err = httpguard.Parse([]string{padded(httpguard.MaxBytes + 1)})
	require.ErrorIs(t, err, token.ErrInvalid)

	toks := make([]token.Token, httpguard.MaxMembers)
	for i := range toks {
		toks[i] = tok(fmt.Sprintf("account/%d", i), 1, "a")
	}
	text, err := httpguard.Format(toks...)
	require.NoError(t, err)
	got, err := httpguard.Parse([]string{text})
	require.NoError(t, err)
	require.Equal(t, toks, got)
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		toks []token.Token
		want string
	}{
		"no token":      {nil, ""},
		"one token":     {[]token.Token{tok("account/42", 33, "a:1")}, `33;r="account/42";h="a:1"`},
		"two tokens":    {[]token.Token{tok("b", 2, "x"), tok("a", 1, "x")}, `2;r="b";h="x", 1;r="a";h="x"`},
		"names of any":  {[]token.Token{tok("größe", 1, `a"b\c`)}, `1;r=%"gr%c3%b6%c3%9fe";h="a\"b\\c"`},
		"fifteen nines": {[]token.Token{tok("a", token.MaxNumber, "b")}, `999999999999999;r="a";h="b"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := httpguard.Format(test.toks...)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			back, err := httpguard.Parse([]string{got})
			require.NoError(t, err)
			require.Equal(t, test.toks, back)
		})
	}
}

func TestFormatRefuses(t *testing.T) {
	t.Parallel()
	many, wide := make([]token.Token, 65), make([]token.Token, 10)
	for i := range many {
		many[i] = tok(strconv.Itoa(i), 1, "a")
	}
	for i := range wide {
		wide[i] = tok(strings.Repeat("ö", 99)+strconv.Itoa(i), 1, strings.Repeat("ö", 100))
	}
	for name, toks := range map[string][]token.Token{
		"the zero token":                {{}},
		"no holder":                     {tok("a", 1, "")},
		"a number that is too great":    {tok("a", token.MaxNumber+1, "b")},
		"two of one resource":           {tok("a", 1, "b"), tok("a", 1, "b")},
		"more members than are read":    many,
		"more bytes than will be read":  wide,
		"a bad one behind a good token": {tok("a", 1, "b"), {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := httpguard.Format(toks...)
			require.Empty(t, text)
			require.ErrorIs(t, err, token.ErrInvalid)
			require.True(t, errors.As(err, new(*httpguard.HeaderError)))
		})
	}
}

func TestSixteenDigitsAreNoInteger(t *testing.T) {
	t.Parallel()
	// hazard W9
	const naive = `%d;r="account/42";h="a"`
	micros := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).UnixMicro()

	// The naive issuer counts microseconds: no reader of the RFC takes them.
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
