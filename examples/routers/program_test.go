package routers_test

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// program returns a program of this machine. Its Debian package has the same name.
func program(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath(name)
	require.NoError(t, err, "this test sends requests with %s: install the package %[1]s", name)
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin"} // no proxies, no settings of the user
	return cmd
}

// output runs cmd, which must succeed, and returns its output.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "%v: %s", cmd.Args, errs.String())
	return string(out)
}

// listen returns a server that also supports HTTP/2 in plain text, and a record of what
// clients have sent.
func listen(t *testing.T, handler http.Handler) (*httptest.Server, *recording) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	sent := &recording{Listener: s.Listener}
	s.Listener = sent
	s.Start()
	t.Cleanup(s.Close)
	return s, sent
}

// recording is a listener that records all data that its connections read.
type recording struct {
	net.Listener
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *recording) Accept() (net.Conn, error) {
	conn, err := r.Listener.Accept()
	return recorded{conn, r}, err
}

func (r *recording) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

type recorded struct {
	net.Conn
	to *recording
}

func (r recorded) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.to.mu.Lock()
	defer r.to.mu.Unlock()
	r.to.text.Write(p[:n])
	return n, err
}
