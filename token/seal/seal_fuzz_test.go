package seal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

// FuzzSeal seals any token that is complete, verifies it, and sends it.
func FuzzSeal(f *testing.F) {
	r := ring(f, key("2026-11", 'a'))
	f.Add("account/42", int64(33), "c2f1", int64(0), uint16(0))
	f.Add("größe\"\\", int64(token.MaxNumber), "%", int64(253402300799), uint16(255))
	f.Add("\xff", int64(0), "a\nb", int64(-1), uint16(7))
	f.Fuzz(func(t *testing.T, resource string, number int64, holder string, end int64, bit uint16) {
		tok := token.Token{Resource: resource, Number: number, Holder: holder}
		var until time.Time
		if end != 0 {
			until = time.Unix(end, 0)
		}
		s, err := r.Seal(tok, until)
		if tok.Check() != nil || end < 0 || end > token.MaxNumber {
			require.ErrorIs(t, err, token.ErrInvalid)
			return
		}
		require.NoError(t, err)
		require.Equal(t, seal.Sealed{Token: tok, Key: "2026-11", Until: end, Code: s.Code}, s)

		text, err := s.MarshalText()
		require.NoError(t, err)
		var read seal.Sealed
		require.NoError(t, read.UnmarshalText(text))
		require.Equal(t, s, read)

		err = r.Verify(read)
		if end != 0 && end < 1e9 {
			refused(t, err, seal.Expired)
		} else if end == 0 || end > 1e11 { // between the two it depends on the day
			require.NoError(t, err)
		}
		read.Code[bit/8%32] ^= 1 << (bit % 8)
		refused(t, r.Verify(read), seal.Wrong)
	})
}

// FuzzForge changes the texts of seals: what still verifies says what was sealed.
func FuzzForge(f *testing.F) {
	r := ring(f, key("2026-11", 'a'), key("2026-10", 'b'))
	genuine := map[seal.Sealed]bool{}
	for _, tok := range []token.Token{account, {Resource: "konto/größe", Number: token.MaxNumber, Holder: `"%\`}} {
		for _, until := range []time.Time{{}, time.Unix(253402300799, 0)} {
			s, err := r.Seal(tok, until)
			require.NoError(f, err)
			genuine[s] = true
			text, err := s.MarshalText()
			require.NoError(f, err)
			f.Add(text)
			f.Add(text[:len(text)-5])
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s seal.Sealed
		if err := s.UnmarshalText(text); err != nil {
			require.ErrorIs(t, err, token.ErrInvalid)
			require.Zero(t, s)
			return
		}
		require.NoError(t, s.Token.Check())
		err := r.Verify(s)
		require.Equal(t, genuine[s], err == nil, "%s", text)
		if err != nil {
			require.ErrorIs(t, err, token.ErrSeal)
		}
		again, err := s.MarshalText()
		require.NoError(t, err)
		var read seal.Sealed
		require.NoError(t, read.UnmarshalText(again))
		require.Equal(t, s, read)
	})
}
