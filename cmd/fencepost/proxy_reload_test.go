package main

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/token"
)

// hazard W2
func TestSignatureKeysAreReadAgain(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys")
	write := func(ids ...string) {
		var text string
		for _, id := range ids {
			text += id + " " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(id, 32))) + "\n"
		}
		require.NoError(t, os.WriteFile(keys, []byte(text), 0o600))
	}
	signed := func(id string, number int64) []string {
		keyring, err := signature.New(signature.Key{ID: id, Secret: []byte(strings.Repeat(id, 32))})
		require.NoError(t, err)
		tok, err := token.New("account/42", number, "h")
		require.NoError(t, err)
		s, err := keyring.Sign(tok, time.Time{})
		require.NoError(t, err)
		text, err := httpguard.FormatSigned(s)
		require.NoError(t, err)
		return []string{httpguard.Header, text}
	}
	write("one")
	upstream := newNoted(t)
	p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}", "--signature-keys", keys)
	put := func(header []string) reply { return ask(t, "PUT", p.url+"/account/42", "x", header...) }
	require.Equal(t, 200, put(signed("one", 1)).status)
	forged := put(field(t, "account/42", 999_999_999_999_999, "forged"))
	require.Equal(t, 403, forged.status)
	require.Equal(t, "ProblemBadSignature", forged.problem)
	require.Equal(t, 403, put(signed("two", 2)).status)

	write("two", "one")
	p.signal(syscall.SIGHUP)
	p.line("files were read again")
	require.Equal(t, 200, put(signed("two", 2)).status)
	require.Equal(t, 200, put(signed("one", 3)).status)

	require.NoError(t, os.WriteFile(keys, []byte("two not-base64!\n"), 0o600))
	p.signal(syscall.SIGHUP)
	p.line("files were not read again: the old ones stay")
	require.Equal(t, 200, put(signed("two", 4)).status)
	require.Equal(t, 403, put(field(t, "account/42", 5, "h")).status)

	naive := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}")
	for _, number := range []int64{999_999_999_999_999, 5} {
		status := ask(t, "PUT", naive.url+"/account/42", "x", field(t, "account/42", number, "forged")...).status
		require.Equal(t, map[int64]int{999_999_999_999_999: 200, 5: 412}[number], status, "without keys one forged number locks out every holder")
	}
}

func TestTLSFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	cert, key := serverproc.Certificate(t)
	p := startProxy(t, newNoted(t).URL, "--dangerously-memory", "--resource", "account/{id}", "--tls-cert", cert, "--tls-key", key)
	requireServed := func(of string) {
		t.Helper()
		text, err := os.ReadFile(of)
		require.NoError(t, err)
		block, _ := pem.Decode(text)
		conn, err := tls.Dial("tcp", p.address, &tls.Config{InsecureSkipVerify: true})
		require.NoError(t, err)
		defer conn.Close()
		require.Equal(t, block.Bytes, conn.ConnectionState().PeerCertificates[0].Raw)
	}
	requireServed(cert)
	secondCert, secondKey := serverproc.Certificate(t)
	require.NoError(t, os.Rename(secondKey, key))
	text, err := os.ReadFile(secondCert)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cert, text, 0o600))
	p.signal(syscall.SIGHUP)
	p.line("files were read again")
	requireServed(secondCert)
	require.NoError(t, os.WriteFile(key, nil, 0o600))
	p.signal(syscall.SIGHUP)
	p.line("files were not read again: the old ones stay")
	requireServed(secondCert)
}
