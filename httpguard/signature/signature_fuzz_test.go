package signature_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/token"
)

// FuzzSign signs any complete token, verifies it, and encodes and decodes it.
func FuzzSign(f *testing.F) {
	r := keyring(f, key("2026-11", 'a'))
	f.Add("account/42", int64(33), "c2f1", int64(0), uint16(0))
	f.Add("größe\"\\", int64(token.MaxNumber), "%", int64(253402300799), uint16(255))
	f.Add("\xff", int64(0), "a\nb", int64(-1), uint16(7))
	f.Fuzz(func(t *testing.T, resource string, number int64, holder string, end int64, bit uint16) {
		tok := token.Token{Resource: resource, Number: number, Holder: holder}
		var until time.Time
		if end != 0 {
			until = time.Unix(end, 0)
		}
		s, err := r.Sign(tok, until)
		if tok.Validate() != nil || end < 0 || end > token.MaxNumber {
			require.ErrorIs(t, err, token.ErrInvalid)
			return
		}
		require.NoError(t, err)
		require.Equal(t, signature.Signed{Token: tok, Key: "2026-11", Until: end, Code: s.Code}, s)

		text, err := s.MarshalText()
		require.NoError(t, err)
		var read signature.Signed
		require.NoError(t, read.UnmarshalText(text))
		require.Equal(t, s, read)

		err = r.Verify(read)
		if end != 0 && end < 1e9 {
			refused(t, err, signature.Expired)
		} else if end == 0 || end > 1e11 { // between the two the result depends on the date
			require.NoError(t, err)
		}
		read.Code[bit/8%32] ^= 1 << (bit % 8)
		refused(t, r.Verify(read), signature.Wrong)
	})
}

// FuzzForge mutates the texts of signatures: a text that verifies must equal a signed one.
func FuzzForge(f *testing.F) {
	r := keyring(f, key("2026-11", 'a'), key("2026-10", 'b'))
	genuine := map[signature.Signed]bool{}
	for _, tok := range []token.Token{account, {Resource: "konto/größe", Number: token.MaxNumber, Holder: `"%\`}} {
		for _, until := range []time.Time{{}, time.Unix(253402300799, 0)} {
			s, err := r.Sign(tok, until)
			require.NoError(f, err)
			genuine[s] = true
			text, err := s.MarshalText()
			require.NoError(f, err)
			f.Add(text)
			f.Add(text[:len(text)-5])
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s signature.Signed
		if err := s.UnmarshalText(text); err != nil {
			require.ErrorIs(t, err, token.ErrInvalid)
			require.Zero(t, s)
			return
		}
		require.NoError(t, s.Token.Validate())
		err := r.Verify(s)
		require.Equal(t, genuine[s], err == nil, "%s", text)
		if err != nil {
			require.ErrorIs(t, err, token.ErrBadSignature)
		}
		again, err := s.MarshalText()
		require.NoError(t, err)
		var read signature.Signed
		require.NoError(t, read.UnmarshalText(again))
		require.Equal(t, s, read)
	})
}
