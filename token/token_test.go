package token_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
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
			require.Equal(t, err, token.Token{Resource: bad.resource, Number: bad.number, Holder: bad.holder}.Validate())
		})
	}
}

func TestATokenIsAValue(t *testing.T) {
	t.Parallel()
	for _, number := range []int64{1, 33, token.MaxNumber} {
		tok, err := token.New(account, number, "worker-1")
		require.NoError(t, err)
		require.NoError(t, tok.Validate())
		require.Equal(t, tok, token.Token{Resource: account, Number: number, Holder: "worker-1"})
	}
	require.Equal(t, "account/42#33", token.Token{Resource: account, Number: 33, Holder: "worker-1"}.String())
	require.ErrorIs(t, token.Token{}.Validate(), token.ErrInvalid)
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

	// The twin compares the two tokens without Validate: they look like one holder's.
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

	// The twin fails only when its first token is sent.
	_, err = httpsfv.Marshal(httpsfv.NewItem(int64(microseconds)))
	require.Error(t, err)
}

func TestCheckResource(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("r", token.MaxNameBytes)
	for name, rule := range map[string]string{
		"account/42":                 "",
		"a":                          "",
		" ":                          "",
		"größe":                      "",
		"日本 🔒":                       "",
		`"{}\%`:                      "",
		"\ufffd":                     "",
		full:                         "",
		strings.Repeat("日", 66):      "",
		"":                           "must not be empty",
		full + "r":                   "must be at most 200 bytes",
		strings.Repeat("日", 67):      "must be at most 200 bytes",
		"\xff":                       "must be UTF-8",
		"half \xc3":                  "must be UTF-8",
		"surrogate \xed\xa0\x80":     "must be UTF-8",
		"\x00":                       "must not contain control characters",
		"line\nfeed":                 "must not contain control characters",
		"tab\t":                      "must not contain control characters",
		"delete \x7f":                "must not contain control characters",
		"next line \u0085, C1":       "must not contain control characters",
		"escape \x1b[31m":            "must not contain control characters",
		strings.Repeat("\x00", 1000): "must be at most 200 bytes",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := token.ValidateResource(name)
			if rule == "" {
				require.NoError(t, err)
				return
			}
			var invalid *token.InvalidError
			require.True(t, errors.As(err, &invalid))
			require.ErrorIs(t, err, token.ErrInvalid)
			require.Equal(t, "resource", invalid.Part)
			require.Equal(t, rule, invalid.Rule)
			require.Equal(t, name[:min(len(name), token.MaxNameBytes)], invalid.Value)
		})
	}
}

func TestTextIsReadBack(t *testing.T) {
	t.Parallel()
	for text, tok := range map[string]token.Token{
		`33;r="account/42";h="worker-1"`:              {account, 33, "worker-1"},
		`999999999999999;r="r";h="h"`:                 {"r", token.MaxNumber, "h"},
		`1;r="a\"b\\c";h=" "`:                         {`a"b\c`, 1, " "},
		`1;r=%"gr%c3%b6%c3%9fe";h="100%"`:             {"größe", 1, "100%"},
		`1;r=%"%22%c3%b6%25";h=%"%e6%97%a5%e6%9c%ac"`: {`"ö%`, 1, "日本"},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			printed, err := tok.MarshalText()
			require.NoError(t, err)
			require.Equal(t, text, string(printed))
			var read token.Token
			require.NoError(t, read.UnmarshalText(printed))
			require.Equal(t, tok, read)
		})
	}
}

func TestJSONHoldsATokenAsAString(t *testing.T) {
	t.Parallel()
	type job struct{ Token token.Token }
	want := job{token.Token{Resource: account, Number: token.MaxNumber, Holder: "worker-1"}}
	text, err := json.Marshal(want)
	require.NoError(t, err)
	require.JSONEq(t, `{"Token":"999999999999999;r=\"account/42\";h=\"worker-1\""}`, string(text))
	var read job
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, want, read)
}

func TestAnIncompleteTokenHasNoText(t *testing.T) {
	t.Parallel()
	for _, tok := range []token.Token{{}, {account, 0, "a"}, {account, 33, ""}, {account, token.MaxNumber + 1, "a"}} {
		_, err := tok.MarshalText()
		require.ErrorIs(t, err, token.ErrInvalid)
	}
}

// hazard W9
func TestHostileTextIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing":                       ``,
		"a bare number":                 `33`,
		"no holder":                     `33;r="account/42"`,
		"an empty holder":               `33;r="account/42";h=""`,
		"an empty resource":             `33;r="";h="a"`,
		"sixteen digits":                `1795169774814316;r="account/42";h="a"`,
		"sixteen digits with zeros":     `0000000000000033;r="account/42";h="a"`,
		"zero":                          `0;r="account/42";h="a"`,
		"a negative number":             `-33;r="account/42";h="a"`,
		"a decimal":                     `33.0;r="account/42";h="a"`,
		"a number in quotes":            `"33";r="account/42";h="a"`,
		"a date":                        `@33;r="account/42";h="a"`,
		"two items":                     `33;r="account/42";h="a", 34;r="account/42";h="a"`,
		"an inner list":                 `(33);r="account/42";h="a"`,
		"something behind it":           `33;r="account/42";h="a" x`,
		"an open quote":                 `33;r="account/42;h=a`,
		"names that are bare words":     `33;r=account/42;h=a`,
		"a control character":           "33;r=\"account\n42\";h=\"a\"",
		"a coded control character":     `33;r=%"account%0a42";h="a"`,
		"letters that are not ASCII":    `33;r="größe";h="a"`,
		"bytes that are not UTF-8":      `33;r=%"%ff";h="a"`,
		"half a code":                   `33;r=%"%f";h="a"`,
		"codes in upper case":           `33;r=%"gr%C3%B6%C3%9Fe";h="a"`,
		"a resource that is too long":   `33;r="` + strings.Repeat("r", token.MaxNameBytes+1) + `";h="a"`,
		"an open quote of 64 KiB":       `33;r="` + strings.Repeat("r", 1<<16),
		"a binary resource":             `33;r=:YWNjb3VudC80Mg==:;h="a"`,
		"parameters in the wrong case":  `33;R="account/42";H="a"`,
		"a duplicate that empties it":   `33;r="account/42";r="";h="a"`,
		"a duplicate of the wrong type": `33;r="account/42";h="a";h`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := token.Token{Resource: "before", Number: 1, Holder: "before"}
			tok := before
			err := tok.UnmarshalText([]byte(text))
			require.ErrorIs(t, err, token.ErrInvalid)
			require.Less(t, len(err.Error()), 2000)
			require.Equal(t, before, tok)
		})
	}
}
