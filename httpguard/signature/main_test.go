package signature_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/token"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var account = token.Token{Resource: "account/42", Number: 33, Holder: "c2f1"}

// key returns a key whose secret repeats one letter.
func key(id string, letter byte) signature.Key {
	secret := make([]byte, signature.MinSecret)
	for i := range secret {
		secret[i] = letter
	}
	return signature.Key{ID: id, Secret: secret}
}

func keyring(t testing.TB, keys ...signature.Key) *signature.Keyring {
	t.Helper()
	r, err := signature.New(keys...)
	require.NoError(t, err)
	return r
}

// refused requires that err rejects a signature for reason, and contains no code.
func refused(t testing.TB, err error, reason signature.Reason) {
	t.Helper()
	require.ErrorIs(t, err, token.ErrBadSignature)
	var why *signature.Error
	require.ErrorAs(t, err, &why)
	require.Equal(t, reason, why.Reason)
}
