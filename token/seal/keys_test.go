package seal_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token/seal"
)

func TestParseKeys(t *testing.T) {
	t.Parallel()
	first, second := key("2026-11", 'a'), key("2026-10", 0xff)
	one := "2026-11 " + base64.StdEncoding.EncodeToString(first.Secret)
	two := "2026-10 " + base64.StdEncoding.EncodeToString(second.Secret)
	for name, test := range map[string]struct {
		text string
		want []seal.Key
	}{
		"nothing is no keys":            {"", nil},
		"remarks are no keys":           {"# none\n\n  # yet\n", nil},
		"one, as in a variable":         {one, []seal.Key{first}},
		"two, in their order":           {one + "\n" + two + "\n", []seal.Key{first, second}},
		"two the other way round":       {two + "\n" + one, []seal.Key{second, first}},
		"remarks and empty lines":       {"# keys\n\n" + one + "\n#" + two + "\n\n", []seal.Key{first}},
		"the ends of lines of Windows":  {one + "\r\n" + two + "\r\n", []seal.Key{first, second}},
		"spaces and tabs around a word": {"  " + one + "\t\n\t" + two + "  ", []seal.Key{first, second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys, err := seal.ParseKeys(test.text)
			require.NoError(t, err)
			require.Equal(t, test.want, keys)
		})
	}
}

func TestParseKeysRefusesAndTellsNothing(t *testing.T) {
	t.Parallel()
	secret := base64.StdEncoding.EncodeToString([]byte("correct horse battery staple, it says here"))
	for name, test := range map[string]struct{ line, want string }{
		"a secret alone":          {secret, "line 3 of the keys: must be"},
		"three words":             {"2026-11 " + secret + " # the new one", "line 3 of the keys: must be"},
		"words that are swapped":  {secret + "= 2026-11", "line 3 of the keys: must be"},
		"a secret without an end": {"2026-11 " + secret[:len(secret)-1], "line 3 of the keys: must be"},
		"bits that are left over": {"2026-11 " + strings.Repeat("A", 42) + "B=", "line 3 of the keys: must be"},
		"base64 for URLs":         {"2026-11 __" + secret[2:], "line 3 of the keys: must be"},
		"a secret too short":      {"2026-11 " + secret[:40], "line 3 of the keys: the secret must be at least 32 bytes"},
		"an id that is none":      {"2026/11 " + secret, "line 3 of the keys: the id must be"},
		"an equals sign":          {"2026-11=" + secret, "line 3 of the keys: must be"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys, err := seal.ParseKeys("# keys\n\n" + test.line + "\n")
			require.ErrorContains(t, err, test.want)
			require.Nil(t, keys)
			require.NotContains(t, err.Error(), secret[2:20])
		})
	}
}
