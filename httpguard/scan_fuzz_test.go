package httpguard_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token/seal"
)

// FuzzScan asks two readers: what the short way accepts, the library reads too,
// and as the same.
func FuzzScan(f *testing.F) {
	f.Add(sealedLine + "\n" + `34;r="account/7";h="a",35;r="b";h="c"`)
	f.Add(`33;r="account/42";h="a";k="2026-11";s=:` + strings.Repeat("A", 43) + `B:`)
	f.Add(`33;r="account/42";h="a";k="2026-11";s=:` + strings.Repeat("A", 42) + "\r=:")
	for _, test := range malformed {
		if text := strings.Join(test.lines, "\n"); len(text) < 500 { // long ones take the time of others
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		scanned, ok := httpguard.Scan(nil, lines)
		if !ok {
			return
		}
		read, err := httpguard.Read(nil, lines)
		require.NoError(t, err)
		require.Equal(t, read, scanned)
	})
}

// FuzzScanMember starts from parts, so that more of what is tried comes near to
// a member: any text in the place of any part.
func FuzzScanMember(f *testing.F) {
	f.Add("33", "account/42", "a", "2026-11", "1795169774", "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=", ", ")
	f.Add("033", `a"b`, `\`, "", "0", "AAAA", ",\t")
	f.Add("1", " ", "~", "k", "1", strings.Repeat("/", 43)+"=", "")
	f.Fuzz(func(t *testing.T, number, resource, holder, key, until, code, between string) {
		member := number + `;r="` + resource + `";h="` + holder + `"`
		sealed := member + `;k="` + key + `";x=` + until + ";s=:" + code + ":"
		for _, line := range []string{member, sealed, sealed + between + `1;r="other";h="b"`, `1;r="other";h="b"` + between + sealed} {
			lines := []string{line}
			scanned, ok := httpguard.Scan(nil, lines)
			if !ok {
				continue
			}
			read, err := httpguard.Read(nil, lines)
			require.NoError(t, err)
			require.Equal(t, read, scanned)
			text, err := httpguard.FormatSealed(scanned...)
			require.NoError(t, err)
			again, ok := httpguard.Scan(make([]seal.Sealed, 0, 2), []string{text})
			require.True(t, ok)
			require.Equal(t, scanned, again)
		}
	})
}
