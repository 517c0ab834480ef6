package signature_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard/signature"
)

var verbs = []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "% x", "%o", "%b", "%c", "%U", "%t"}

// printed returns what fmt, slog and encoding/json write for v, alone and inside other
// values.
func printed(t *testing.T, v any) string {
	t.Helper()
	var out bytes.Buffer
	for _, outer := range []any{v, []any{v}, map[string]any{"k": v}, struct{ Inner any }{v}, &struct{ Inner any }{v}} {
		for _, verb := range verbs {
			fmt.Fprintf(&out, verb+"\n", outer)
		}
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("", "v", v, slog.Group("g", "v", v))
	}
	return out.String()
}

// silent requires that text has no spelling of secret.
func silent(t *testing.T, text string, secret []byte) {
	t.Helper()
	spellings := []string{string(secret), base64.StdEncoding.EncodeToString(secret)}
	for _, verb := range []string{"%d", "%x", "%X", "% x", "%#v", "%q", "%o", "%b", "%c", "%U"} {
		spelling := strings.TrimPrefix(fmt.Sprintf(verb, secret[:8]), "[]byte")
		spellings = append(spellings, strings.Trim(spelling, `[]{}"`))
	}
	for _, spelling := range spellings {
		if strings.Contains(text, spelling) {
			t.Errorf("the secret is there: %s", spelling)
		}
	}
}

func TestAKeyNeverPrintsItsSecret(t *testing.T) {
	t.Parallel()
	k := signature.Key{ID: "2026-11", Secret: []byte("correct horse battery staple, it says here")}
	config := struct{ Keys []signature.Key }{[]signature.Key{k}}
	encoded, err := json.Marshal(config)
	require.NoError(t, err)
	for name, text := range map[string]string{
		"a key": printed(t, k), "a pointer": printed(t, &k), "a configuration": printed(t, config),
		"JSON": string(encoded), "String": k.String(), "GoString": k.GoString(), "LogValue": k.LogValue().String(),
	} {
		silent(t, text, k.Secret)
		require.Contains(t, text, "2026-11", name)
	}
	silent(t, printed(t, keyring(t, k)), k.Secret)

	// The twin is a struct of the same fields.
	type naive signature.Key
	require.Contains(t, fmt.Sprintf("%s", naive(k)), string(k.Secret))
}

func TestAKeyWithSwappedFieldsDoesNotPrintItsSecret(t *testing.T) {
	t.Parallel()
	swapped := signature.Key{ID: "PL5hT6c0v+2nR1xYb9k8m3QwZs7uJd4fAeGiHoLpNtE=", Secret: []byte("2026-11")}
	require.NotContains(t, printed(t, swapped), swapped.ID)
	_, err := signature.New(swapped)
	require.ErrorContains(t, err, "key 1: the id must be 1 to 64 of A-Z a-z 0-9 . _ -")
	require.NotContains(t, err.Error(), swapped.ID)
}

func TestKeysAreChecked(t *testing.T) {
	t.Parallel()
	secret := key("", 'a').Secret
	for _, id := range []string{"a", "2026-11", "A-Z.a_z", strings.Repeat("k", 64)} {
		_, err := signature.New(signature.Key{ID: id, Secret: secret})
		require.NoError(t, err, id)
	}
	for _, id := range []string{"", " ", "a b", "a\nb", "a\"b", "ä", "a/b", "a=", strings.Repeat("k", 65)} {
		_, err := signature.New(signature.Key{ID: id, Secret: secret})
		require.ErrorContains(t, err, "the id must be", id)
	}
	_, err := signature.New(key("a", 'a'), signature.Key{ID: "b", Secret: secret[1:]})
	require.EqualError(t, err, "signature: key 2: the secret must be at least 32 bytes")
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	first, second := key("2026-11", 'a'), key("2026-10", 0xff)
	one := "2026-11 " + base64.StdEncoding.EncodeToString(first.Secret)
	two := "2026-10 " + base64.StdEncoding.EncodeToString(second.Secret)
	for name, test := range map[string]struct {
		text string
		want []signature.Key
	}{
		"nothing is no keys":            {"", nil},
		"remarks are no keys":           {"# none\n\n  # yet\n", nil},
		"one, as in a variable":         {one, []signature.Key{first}},
		"two, in their order":           {one + "\n" + two + "\n", []signature.Key{first, second}},
		"two the other way round":       {two + "\n" + one, []signature.Key{second, first}},
		"remarks and empty lines":       {"# keys\n\n" + one + "\n#" + two + "\n\n", []signature.Key{first}},
		"the ends of lines of Windows":  {one + "\r\n" + two + "\r\n", []signature.Key{first, second}},
		"spaces and tabs around a word": {"  " + one + "\t\n\t" + two + "  ", []signature.Key{first, second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys, err := signature.ParseKeys(test.text)
			require.NoError(t, err)
			require.Equal(t, test.want, keys)
		})
	}
}

func TestParseKeysRefusesWithoutRevealingText(t *testing.T) {
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
		"an invalid id":           {"2026/11 " + secret, "line 3 of the keys: the id must be"},
		"an equals sign":          {"2026-11=" + secret, "line 3 of the keys: must be"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys, err := signature.ParseKeys("# keys\n\n" + test.line + "\n")
			require.ErrorContains(t, err, test.want)
			require.Nil(t, keys)
			require.NotContains(t, err.Error(), secret[2:20])
		})
	}
}
