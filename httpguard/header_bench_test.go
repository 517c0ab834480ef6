package httpguard_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
)

func BenchmarkParse(b *testing.B) {
	one := line("account/42", 179516977481431, "billing:4711:1:c2f1a9035be17d64")
	two := one + ", " + line("job/nightly", 179516977481432, "billing:4711:2:90ab1c22d5e8f037")
	for name, value := range map[string]string{
		"one token": one, "two tokens": two, "a signed token": signedLine,
		"one token the long way": strings.Replace(one, ";r=", "; r=", 1),
		"the costliest refusal":  strings.TrimSuffix(strings.Repeat("1,", 4096), ","),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			lines := []string{value}
			for b.Loop() {
				_, _ = httpguard.Parse(lines)
			}
		})
	}
}

func BenchmarkFormat(b *testing.B) {
	one := tok("account/42", 179516977481431, "billing:4711:1:c2f1a9035be17d64")
	b.ReportAllocs()
	for b.Loop() {
		_, err := httpguard.Format(one)
		require.NoError(b, err)
	}
}
