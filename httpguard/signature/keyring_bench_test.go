package signature_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

var billing = token.Token{Resource: "account/42", Number: 179516977481431, Holder: "billing:4711:1:c2f1a9035be17d64"}

func BenchmarkVerify(b *testing.B) {
	r := keyring(b, key("2026-11", 'a'), key("2026-10", 'b'))
	for name, until := range map[string]time.Time{"without an end": {}, "with an end": time.Now().Add(time.Hour)} {
		s, err := r.Sign(billing, until)
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if r.Verify(s) != nil {
					b.Fatal("refused")
				}
			}
		})
	}
}

func BenchmarkVerifyParallel(b *testing.B) {
	r := keyring(b, key("2026-11", 'a'))
	s, err := r.Sign(billing, time.Time{})
	require.NoError(b, err)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if r.Verify(s) != nil {
				b.Error("refused")
			}
		}
	})
}

func BenchmarkSign(b *testing.B) {
	r := keyring(b, key("2026-11", 'a'))
	until := time.Now().Add(time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Sign(billing, until); err != nil {
			b.Fatal(err)
		}
	}
}
