package httpguard_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/token"
)

func TestWhatFormatWritesIsScanned(t *testing.T) {
	t.Parallel()
	short, long := signedToken(), signedToken()
	short.Token, short.Until = tok("a", 1, "b"), 0
	long.Token = tok(strings.Repeat("r", token.MaxNameBytes), token.MaxNumber, strings.Repeat("~", token.MaxNameBytes))
	long.Key, long.Until = strings.Repeat("k", 64), token.MaxNumber
	all := []signature.Signed{signedToken(), short, long, {Token: tok(" a, b;r='c' ", 9, "%")}}
	for n := 1; n <= len(all); n++ {
		text, err := httpguard.FormatSigned(all[:n]...)
		require.NoError(t, err)
		got, ok := httpguard.Scan(nil, []string{text})
		require.True(t, ok, text)
		require.Equal(t, all[:n], got)
	}
	lines := []string{signedLine + `,1;r="a";h="b"`, `2;r="b";h="b"`}
	got, ok := httpguard.Scan(nil, lines)
	require.True(t, ok)
	read, err := httpguard.Read(nil, lines)
	require.NoError(t, err)
	require.Equal(t, read, got)
}

// Scan rejects rare forms as well as malformed ones, without an error.
func TestWhatIsNotScannedIsLeftToTheLibrary(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"another order":                `33;h="a";r="account/42"`,
		"an unknown parameter":         `33;r="account/42";h="a";y`,
		"a parameter given twice":      `33;r="account/7";r="account/42";h="a"`,
		"a Display String":             `33;r=%"account/42";h="a"`,
		"a leading zero":               `033;r="account/42";h="a"`,
		"a space after semicolons":     `33; r="account/42";h="a"`,
		"a tab after a comma":          `33;r="account/42";h="a",	34;r="account/7";h="a"`,
		"a space before a comma":       `33;r="account/42";h="a" ,34;r="account/7";h="a"`,
		"spaces around the list":       ` 33;r="account/42";h="a"`,
		"a space at the end":           `33;r="account/42";h="a" `,
		"a quote":                      `33;r="account\"42";h="a"`,
		"a backslash":                  `33;r="account\\42";h="a"`,
		"a signature in another order": `33;r="account/42";h="a";s=:AAAA:;k="2026-11"`,
		"a short code":                 `33;r="account/42";h="a";k="2026-11";s=:AAAA:`,
		"a long code":                  `33;r="account/42";h="a";k="2026-11";s=:` + strings.Repeat("A", 48) + `:`,
		"a code without padding":       `33;r="account/42";h="a";k="2026-11";s=:` + strings.Repeat("A", 44) + `:`,
	} {
		_, ok := httpguard.Scan(nil, []string{line})
		require.False(t, ok, name)
		got, err := httpguard.ParseSigned([]string{line})
		require.NoError(t, err, name)
		require.NotEmpty(t, got)
	}
}

func TestNothingMalformedIsScanned(t *testing.T) {
	t.Parallel()
	for name, test := range malformed {
		_, ok := httpguard.Scan(nil, test.lines)
		if test.rule == "must be at most 8192 bytes" {
			continue // counted before
		}
		require.False(t, ok, name)
	}
	full := make([]string, httpguard.MaxMembers)
	for i := range full {
		full[i] = line(fmt.Sprint(i), 1, "a")
	}
	_, ok := httpguard.Scan(nil, full)
	require.True(t, ok)
	_, ok = httpguard.Scan(nil, append(full, line("one more", 1, "a")))
	require.False(t, ok)
}

// These are the fields that differ from a valid one by one changed byte, one missing
// piece, or one repeated piece.
func TestTheTwoReadersAgreeAroundAGoodField(t *testing.T) {
	t.Parallel()
	good := signedLine + `,7;r="b";h="c"`
	agree := func(text string) {
		lines := []string{text}
		if scanned, ok := httpguard.Scan(nil, lines); ok {
			read, err := httpguard.Read(nil, lines)
			require.NoError(t, err, text)
			require.Equal(t, read, scanned, text)
		}
	}
	for i := range good {
		for b := range 256 {
			agree(good[:i] + string([]byte{byte(b)}) + good[i+1:])
		}
		for j := i + 1; j <= len(good); j++ {
			agree(good[:i] + good[j:])
			agree(good[:j] + good[i:])
		}
	}
}

// Each field is parsed from its own lines, even if the buffer is reused.
func TestAReusedBufferHoldsNothingBack(t *testing.T) {
	t.Parallel()
	buffer := make([]signature.Signed, 0, 2)
	for _, lines := range [][]string{
		{signedLine + `, 34;r="account/7";h="a"`}, {`34;r="account/7";h="a"`}, {`34; r="account/7";h="a"`},
		{`34;r="account/7";h="a", 35;r="account/7";h="a"`}, {""}, nil, {`34;r="account/8";h="b"`, signedLine},
	} {
		want, wantErr := httpguard.Read(nil, lines)
		got, err := httpguard.AppendSigned(buffer, lines)
		require.Equal(t, wantErr, err)
		require.Equal(t, want, got)
	}
}

func TestReadingAllocatesOnlyTheTokens(t *testing.T) {
	buffer := make([]signature.Signed, 0, 2)
	for name, lines := range map[string][]string{
		"one token": {line("account/42", 179516977481431, "billing:4711:1:c2f1a9035be17d64")}, "a signed token": {signedLine},
		"two tokens in two lines": {signedLine, line("account/7", 179516977481431, "billing:4711:1:c2f1a9035be17d64")},
	} {
		require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = httpguard.AppendSigned(buffer, lines) }), name)
		together := []string{strings.Join(lines, ", ")}
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = httpguard.ParseSigned(together) }), 1.0, name)
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = httpguard.Parse(lines) }), 1.0, name)
	}
}
