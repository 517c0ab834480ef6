package token_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

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
		"a resource that is too long":   `33;r="` + strings.Repeat("r", token.MaxName+1) + `";h="a"`,
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
