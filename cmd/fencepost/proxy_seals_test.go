package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

// hazard W2
func TestSealKeysAreReadAgain(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys")
	write := func(ids ...string) {
		var text string
		for _, id := range ids {
			text += id + " " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(id, 32))) + "\n"
		}
		require.NoError(t, os.WriteFile(keys, []byte(text), 0o600))
	}
	sealed := func(id string, number int64) []string {
		ring, err := seal.New(seal.Key{ID: id, Secret: []byte(strings.Repeat(id, 32))})
		require.NoError(t, err)
		tok, err := token.New("account/42", number, "h")
		require.NoError(t, err)
		s, err := ring.Seal(tok, time.Time{})
		require.NoError(t, err)
		text, err := httpguard.FormatSealed(s)
		require.NoError(t, err)
		return []string{httpguard.Header, text}
	}
	write("one")
	upstream := newNoted(t)
	p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}", "--seal-keys", keys)
	put := func(header []string) reply { return ask(t, "PUT", p.url+"/account/42", "x", header...) }
	require.Equal(t, 200, put(sealed("one", 1)).status)
	forged := put(field(t, "account/42", 999_999_999_999_999, "forged"))
	require.Equal(t, 403, forged.status)
	require.Equal(t, "ProblemSeal", forged.problem)
	require.Equal(t, 403, put(sealed("two", 2)).status)

	write("two", "one")
	p.signal(syscall.SIGHUP)
	p.line("files were read again")
	require.Equal(t, 200, put(sealed("two", 2)).status)
	require.Equal(t, 200, put(sealed("one", 3)).status)

	require.NoError(t, os.WriteFile(keys, []byte("two not-base64!\n"), 0o600))
	p.signal(syscall.SIGHUP)
	p.line("files were not read again: the old ones stay")
	require.Equal(t, 200, put(sealed("two", 4)).status)
	require.Equal(t, 403, put(field(t, "account/42", 5, "h")).status)

	naive := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}")
	for _, number := range []int64{999_999_999_999_999, 5} {
		status := ask(t, "PUT", naive.url+"/account/42", "x", field(t, "account/42", number, "forged")...).status
		require.Equal(t, map[int64]int{999_999_999_999_999: 200, 5: 412}[number], status, "without keys one forged number locks everybody out")
	}
}
