package seal_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var account = token.Token{Resource: "account/42", Number: 33, Holder: "c2f1"}

// key returns a key whose secret is all of one letter.
func key(id string, letter byte) seal.Key {
	secret := make([]byte, seal.MinSecret)
	for i := range secret {
		secret[i] = letter
	}
	return seal.Key{ID: id, Secret: secret}
}

func ring(t testing.TB, keys ...seal.Key) *seal.Ring {
	t.Helper()
	r, err := seal.New(keys...)
	require.NoError(t, err)
	return r
}

// refused requires that err refuses a seal for reason, and tells no code.
func refused(t testing.TB, err error, reason seal.Reason) {
	t.Helper()
	require.ErrorIs(t, err, token.ErrSeal)
	var why *seal.Error
	require.ErrorAs(t, err, &why)
	require.Equal(t, reason, why.Reason)
}
