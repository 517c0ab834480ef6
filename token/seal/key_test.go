package seal_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token/seal"
)

var verbs = []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "% x", "%o", "%b", "%c", "%U", "%t"}

// printed is what fmt, slog and encoding/json make of v, alone and inside of
// other values.
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
	k := seal.Key{ID: "2026-11", Secret: []byte("correct horse battery staple, it says here")}
	config := struct{ Keys []seal.Key }{[]seal.Key{k}}
	encoded, err := json.Marshal(config)
	require.NoError(t, err)
	for name, text := range map[string]string{
		"a key": printed(t, k), "a pointer": printed(t, &k), "a configuration": printed(t, config),
		"JSON": string(encoded), "String": k.String(), "GoString": k.GoString(), "LogValue": k.LogValue().String(),
	} {
		silent(t, text, k.Secret)
		require.Contains(t, text, "2026-11", name)
	}
	silent(t, printed(t, ring(t, k)), k.Secret)

	// The twin is a struct of the same fields.
	type naive seal.Key
	require.Contains(t, fmt.Sprintf("%s", naive(k)), string(k.Secret))
}

func TestAKeyWhoseWordsWereSwappedDoesNotPrintItsSecretEither(t *testing.T) {
	t.Parallel()
	swapped := seal.Key{ID: "PL5hT6c0v+2nR1xYb9k8m3QwZs7uJd4fAeGiHoLpNtE=", Secret: []byte("2026-11")}
	require.NotContains(t, printed(t, swapped), swapped.ID)
	_, err := seal.New(swapped)
	require.ErrorContains(t, err, "key 1: the id must be 1 to 64 of A-Z a-z 0-9 . _ -")
	require.NotContains(t, err.Error(), swapped.ID)
}

func TestKeysAreChecked(t *testing.T) {
	t.Parallel()
	secret := key("", 'a').Secret
	for _, id := range []string{"a", "2026-11", "A-Z.a_z", strings.Repeat("k", 64)} {
		_, err := seal.New(seal.Key{ID: id, Secret: secret})
		require.NoError(t, err, id)
	}
	for _, id := range []string{"", " ", "a b", "a\"b", "ä", "a/b", "a=", strings.Repeat("k", 65)} {
		_, err := seal.New(seal.Key{ID: id, Secret: secret})
		require.ErrorContains(t, err, "the id must be", id)
	}
	_, err := seal.New(key("a", 'a'), seal.Key{ID: "b", Secret: secret[1:]})
	require.EqualError(t, err, "seal: key 2: the secret must be at least 32 bytes")
}
