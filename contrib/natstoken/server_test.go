package natstoken_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/natstoken"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/token"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	resource = "account/42"
	long     = time.Hour // a ttl that does not end
)

// program builds the server from its module, and returns its path. The flags of the build
// are those of the tests, but not their go.mod.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.TempDir(), "nats-server")
	build := exec.Command("go", "build", "-modfile=go.mod", "-o", path, "github.com/nats-io/nats-server/v2")
	build.Dir, build.Env = "internal/server", append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build of nats-server in %s: %w: %s", build.Dir, err, out)
	}
	return path, nil
})

// server is a NATS server of one test, which syncs each write.
type server struct {
	*serverproc.Process
	t        *testing.T
	settings string // of the next start
}

// start starts a server with additional settings in the form of its configuration file. It
// is removed at the end of the test.
func start(t *testing.T, settings string) *server {
	t.Helper()
	path, err := program()
	require.NoError(t, err)
	s := &server{t: t, settings: settings}
	s.Process, err = serverproc.Start(serverproc.Program{Title: path, Ready: "Server is ready", Argv: func(folder string, port int) []string {
		config := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, sync_interval: always }\n%s\n", serverproc.Loopback(port), folder+"/data", s.settings)
		file := folder + "/server.conf"
		require.NoError(t, os.WriteFile(file, []byte(config), 0o644))
		return []string{path, "-c", file}
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Remove()) })
	return s
}

func (s *server) addr() string { return serverproc.Loopback(s.Port) }

func (s *server) send(signal string) { s.t.Helper(); require.NoError(s.t, s.Send(signal)) }

func (s *server) restart() { s.t.Helper(); require.NoError(s.t, s.Restart()) }

// connect returns a connection that is closed at the end of the test.
func connect(t *testing.T, url string, options ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	quick := []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}
	conn, err := nats.Connect(url, append(quick, options...)...)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return conn, js
}

// bucket makes the bucket if there is none.
func bucket(t *testing.T, js jetstream.JetStream, config jetstream.KeyValueConfig) jetstream.KeyValue {
	t.Helper()
	if config.Bucket == "" {
		config.Bucket = "fencepost"
	}
	kv, err := js.CreateKeyValue(t.Context(), config)
	if err != nil {
		kv, err = js.KeyValue(t.Context(), config.Bucket)
	}
	require.NoError(t, err)
	return kv
}

// issuer returns an issuer with a connection of its own, as of a process.
func issuer(t *testing.T, url string, options ...nats.Option) *natstoken.Issuer {
	t.Helper()
	_, js := connect(t, url, options...)
	return natstoken.New(js, bucket(t, js, jetstream.KeyValueConfig{}))
}

func acquire(t *testing.T, iss token.Issuer, holder string) token.Token {
	t.Helper()
	grant, err := iss.Acquire(t.Context(), resource, holder, long)
	require.NoError(t, err)
	return grant.Token
}

func isUnreachable(err error) bool { return errors.Is(err, token.ErrUnreachable) }

// key is that of the resource.
var key = strings.ReplaceAll(resource, "/", "=2F")
