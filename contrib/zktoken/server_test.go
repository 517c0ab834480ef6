package zktoken_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/zktoken"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/token"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	resource = "account/42"
	znode    = "/fencepost/account=2F42"
	long     = time.Hour        // a ttl that does not end
	session  = 10 * time.Minute // so that the client itself waits for long
)

// jars are those of Debian's ZooKeeper, with what its main jar does not name: a log to
// stderr, and the rest of Netty for TLS.
const jars = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar:/usr/share/java/netty-codec.jar:" +
	"/usr/share/java/netty-resolver.jar:/usr/share/java/netty-transport-native-unix-common.jar"

// server is a ZooKeeper of one test.
type server struct {
	*serverproc.Process
	t *testing.T
}

// start starts a server with additional settings in the form of its configuration file. It
// is removed at the end of the test. What it has written survives a kill, but no power cut.
func start(t *testing.T, settings string) *server {
	t.Helper()
	return member(t, "ZooKeeperServer - Snapshot taken", func(folder string, port int) string {
		return fmt.Sprintf("dataDir=%s/data\nclientPort=%d\nclientPortAddress=127.0.0.1\n%s", folder, port, settings)
	})
}

func member(t *testing.T, ready string, config func(folder string, port int) string) *server {
	t.Helper()
	java, err := exec.LookPath("java")
	if err == nil {
		_, err = os.Stat("/usr/share/java/zookeeper.jar")
	}
	require.NoError(t, err, "this test starts a ZooKeeper: apt-get install zookeeper default-jre-headless")
	p, err := serverproc.Start(serverproc.Program{Title: "ZooKeeper", Ready: ready, Argv: func(folder string, port int) []string {
		text := config(folder, port) + "\ntickTime=500\nmaxClientCnxns=0\nmaxSessionTimeout=600000\nadmin.enableServer=false\n"
		require.NoError(t, os.WriteFile(folder+"/zoo.cfg", []byte(text), 0o644))
		return []string{java, "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
			"-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=1024", "-cp", jars,
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", folder + "/zoo.cfg"}
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Remove()) })
	return &server{p, t}
}

func (s *server) addr() string { return serverproc.Loopback(s.Port) }

func (s *server) send(signal string) { s.t.Helper(); require.NoError(s.t, s.Send(signal)) }

func (s *server) restart() { s.t.Helper(); require.NoError(s.t, s.Restart()) }

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// connect returns a connection with a session, which is closed at the end of the test.
func connect(t *testing.T, dialer zk.Dialer, servers ...string) *zk.Conn {
	t.Helper()
	if dialer == nil {
		dialer = net.DialTimeout
	}
	connected := make(chan bool)
	once := sync.OnceFunc(func() { close(connected) })
	conn, _, err := zk.Connect(servers, session, zk.WithLogger(quiet{}), zk.WithDialer(dialer), zk.WithEventCallback(func(e zk.Event) {
		if e.State == zk.StateHasSession {
			once()
		}
	}))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	<-connected
	return conn
}

// issuer returns an issuer with a connection of its own, as of a process.
func issuer(t *testing.T, servers ...string) *zktoken.Issuer {
	t.Helper()
	return zktoken.New(zktoken.Config{Conn: connect(t, nil, servers...)})
}

func acquire(t *testing.T, iss token.Issuer, holder string) token.Token {
	t.Helper()
	grant, err := iss.Acquire(t.Context(), resource, holder, long)
	require.NoError(t, err)
	return grant.Token
}
