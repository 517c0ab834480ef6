package httpguard_test

import (
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/token"
)

// FuzzParse parses lines, then formats and parses the result again. A second parser,
// which implements only the RFC's types and the rules of a token, decides which fields
// are valid.
func FuzzParse(f *testing.F) {
	f.Add(`33;r="account/42";h="a"`)
	f.Add("33;r=\"account/42\";h=\"a\"\n34;r=%\"gr%c3%b6%c3%9fe\";h=\"a\"")
	f.Add(signedLine + "\n" + `34;r="account/7";h="a",35;r="b";h="c"`)
	f.Add(`33;r="account/42";h="a";k="2026-11";s=:` + strings.Repeat("A", 43) + `B:`)
	f.Add(`33;r="account/42";h="a";k="2026-11";s=:` + strings.Repeat("A", 42) + "\r=:")
	f.Add(signedLine + ", " + strings.Replace(signedLine, "account/42", `a\"b`, 1))
	for _, v := range readVectors(f).Parse {
		if text := strings.Join(v.Field, "\n"); len(text) < 500 { // long ones slow the fuzzing down
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		all, err := httpguard.ParseSigned(lines)
		toks, tokErr := httpguard.Parse(lines)
		require.Equal(t, err, tokErr)
		require.Len(t, toks, len(all))
		want, wellFormed := reread(lines)
		require.Equal(t, wellFormed, err == nil, "%v", err)
		if err != nil {
			var header *httpguard.HeaderError
			require.ErrorAs(t, err, &header)
			require.ErrorIs(t, err, token.ErrInvalid)
			require.Empty(t, all)
			return
		}
		require.Equal(t, want, all)
		for i := range all {
			require.Equal(t, all[i].Token, toks[i])
		}
		// Format may write more than was parsed: a space after each comma, a code in
		// full.
		if len(text) > httpguard.MaxBytes-64*httpguard.MaxMembers {
			return
		}
		formatted, err := httpguard.FormatSigned(all...)
		require.NoError(t, err)
		again, err := httpguard.ParseSigned([]string{formatted})
		require.NoError(t, err)
		require.Equal(t, all, again)
	})
}

// reread is the second parser.
func reread(lines []string) (all []signature.Signed, ok bool) {
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil || len(list) > httpguard.MaxMembers || len(strings.Join(lines, ", ")) > httpguard.MaxBytes {
		return nil, false
	}
	seen := map[string]bool{}
	for _, member := range list {
		item, isItem := member.(httpsfv.Item)
		if !isItem {
			return nil, false
		}
		s, ok := rereadItem(item)
		if !ok || seen[s.Token.Resource] {
			return nil, false
		}
		seen[s.Token.Resource] = true
		all = append(all, s)
	}
	return all, true
}

func rereadItem(item httpsfv.Item) (s signature.Signed, ok bool) {
	param := map[string]any{}
	for _, name := range item.Params.Names() {
		param[name], _ = item.Params.Get(name)
	}
	name := func(v any) string {
		if display, is := v.(httpsfv.DisplayString); is {
			return string(display)
		}
		text, _ := v.(string)
		return text
	}
	number, _ := item.Value.(int64)
	tok, err := token.New(name(param["r"]), number, name(param["h"]))
	s = signature.Signed{Token: tok}
	if err != nil || param["k"] == nil && param["x"] == nil && param["s"] == nil {
		return s, err == nil
	}
	code, isCode := param["s"].([]byte)
	s.Key, _ = param["k"].(string)
	if x, has := param["x"]; has {
		if s.Until, _ = x.(int64); s.Until < 1 {
			return s, false
		}
	}
	if len(code) == len(s.Code) {
		copy(s.Code[:], code)
	}
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	return s, isCode && s.Key != "" && len(s.Key) <= 64 && strings.Trim(s.Key, letters) == ""
}

// FuzzFormat formats any complete token with any well-formed signature, and parses the
// result.
func FuzzFormat(f *testing.F) {
	f.Add("account/42", int64(33), "a", "2026-11", int64(1795169774), byte(1))
	f.Add("größe\"\\", int64(token.MaxNumber), "%", "", int64(0), byte(0))
	f.Add("\xff", int64(0), "\x7f", "\"", int64(-1), byte(255))
	f.Fuzz(func(t *testing.T, resource string, number int64, holder, key string, until int64, code byte) {
		tok := token.Token{Resource: resource, Number: number, Holder: holder}
		text, err := httpguard.Format(tok)
		if tok.Validate() != nil {
			require.ErrorIs(t, err, token.ErrInvalid)
			return
		}
		require.NoError(t, err)
		again, err := httpguard.Parse([]string{text})
		require.NoError(t, err)
		require.Equal(t, []token.Token{tok}, again)

		s := signature.Signed{Token: tok, Key: key, Until: until}
		s.Code[31] = code
		signedText, err := httpguard.FormatSigned(s)
		if err != nil {
			require.ErrorIs(t, err, token.ErrInvalid)
			return
		}
		back, err := httpguard.ParseSigned([]string{signedText})
		require.NoError(t, err)
		require.Equal(t, []signature.Signed{s}, back)
		itself, err := s.MarshalText()
		require.NoError(t, err)
		require.Equal(t, string(itself), signedText)
	})
}
