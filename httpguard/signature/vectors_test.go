package signature_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/token"
)

// vectors is testdata/signatures.json. Its codes were made with the openssl command, and
// its members were composed by hand.
type vectors struct {
	Keys   []struct{ ID, Secret string }
	Signed []struct {
		Name, Key, Number, Resource, Holder string
		X                                   *string
		Code, Member                        string
	}
	Refused []struct {
		Name, Member string
		Reason       signature.Reason
	}
	Malformed []struct{ Name, Member string }
}

func load(t *testing.T) (v vectors, keys []signature.Key) {
	t.Helper()
	text, err := os.ReadFile("testdata/signatures.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &v))
	for _, k := range v.Keys {
		keys = append(keys, signature.Key{ID: k.ID, Secret: decode(t, k.Secret)})
	}
	require.NotEmpty(t, keys)
	return v, keys
}

func decode(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	return raw
}

func TestTheVectorsAreSigned(t *testing.T) {
	t.Parallel()
	v, keys := load(t)
	all := keyring(t, keys...)
	require.NotEmpty(t, v.Signed)
	for _, vector := range v.Signed {
		t.Run(vector.Name, func(t *testing.T) {
			t.Parallel()
			number, err := strconv.ParseInt(vector.Number, 10, 64)
			require.NoError(t, err)
			var until time.Time
			if vector.X != nil {
				x, err := strconv.ParseInt(*vector.X, 10, 64)
				require.NoError(t, err)
				until = time.Unix(x, 0)
			}
			tok := token.Token{Resource: vector.Resource, Number: number, Holder: vector.Holder}
			s, err := only(t, keys, vector.Key).Sign(tok, until)
			require.NoError(t, err)
			require.Equal(t, decode(t, vector.Code), s.Code[:])
			text, err := s.MarshalText()
			require.NoError(t, err)
			require.Equal(t, vector.Member, string(text))

			var read signature.Signed
			require.NoError(t, read.UnmarshalText([]byte(vector.Member)))
			require.Equal(t, s, read)
			require.NoError(t, all.Verify(read))

			var plain token.Token // a reader without support for signatures reads the token
			require.NoError(t, plain.UnmarshalText([]byte(vector.Member)))
			require.Equal(t, tok, plain)
		})
	}
}

func TestTheVectorsAreRefused(t *testing.T) {
	t.Parallel()
	v, keys := load(t)
	require.NotEmpty(t, v.Refused)
	require.NotEmpty(t, v.Malformed)
	for _, vector := range v.Refused {
		var s signature.Signed
		require.NoError(t, s.UnmarshalText([]byte(vector.Member)), vector.Name)
		refused(t, keyring(t, keys...).Verify(s), vector.Reason)
	}
	for _, vector := range v.Malformed {
		var s signature.Signed
		require.ErrorIs(t, s.UnmarshalText([]byte(vector.Member)), token.ErrInvalid, vector.Name)
		require.Zero(t, s)
	}
}

func only(t *testing.T, keys []signature.Key, id string) *signature.Keyring {
	t.Helper()
	for _, k := range keys {
		if k.ID == id {
			return keyring(t, k)
		}
	}
	t.Fatalf("no key %s", id)
	return nil
}
