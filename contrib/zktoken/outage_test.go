package zktoken_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/zktoken"
	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/internal/register/registertest"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

func TestAuthentication(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	open := func(password string) *zktoken.Issuer {
		conn := connect(t, nil, s.addr())
		require.NoError(t, conn.AddAuth("digest", []byte("app:"+password)))
		return zktoken.New(zktoken.Config{Conn: conn, ACL: zk.AuthACL(zk.PermAll)})
	}
	app := open("p")
	acquire(t, app, "h")
	for what, iss := range map[string]*zktoken.Issuer{"a wrong password": open("wrong"), "no password": issuer(t, s.addr())} {
		_, err := iss.Acquire(t.Context(), resource, "other", long)
		require.ErrorContains(t, err, "zktoken: zk: not authenticated", what)
		require.NotErrorIs(t, err, token.ErrUnreachable, what)
	}
	registertest.TestHandOver(t, app, open("p"), nil)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := serverproc.Certificate(t)
	public, err := os.ReadFile(cert)
	require.NoError(t, err)
	private, err := os.ReadFile(key)
	require.NoError(t, err)
	s := member(t, "ZooKeeperServer - Snapshot taken", func(folder string, port int) string {
		require.NoError(t, os.WriteFile(folder+"/key.pem", append(private, public...), 0o644))
		require.NoError(t, os.WriteFile(folder+"/trusted.pem", public, 0o644))
		return fmt.Sprintf("dataDir=%s/data\nsecureClientPort=%d\nsecureClientPortAddress=127.0.0.1\n"+
			"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"+
			"ssl.keyStore.location=%s/key.pem\nssl.trustStore.location=%s/trusted.pem", folder, port, folder, folder)
	})
	trusted := x509.NewCertPool()
	require.True(t, trusted.AppendCertsFromPEM(public))
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	dial := func(config *tls.Config) zk.Dialer {
		return func(network, address string, timeout time.Duration) (net.Conn, error) {
			return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, address, config)
		}
	}
	conn := connect(t, dial(&tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{pair}}), s.addr())
	iss := zktoken.New(zktoken.Config{Conn: conn})
	registertest.TestHandOver(t, iss, iss, nil)

	conn, _, err = zk.Connect([]string{s.addr()}, session, zk.WithLogger(quiet{}), zk.WithDialer(dial(&tls.Config{Certificates: []tls.Certificate{pair}})))
	require.NoError(t, err)
	defer conn.Close()
	_, err = zktoken.New(zktoken.Config{Conn: conn}).Acquire(t.Context(), resource, "h", long)
	require.ErrorIs(t, err, token.ErrUnreachable, "the client does not tell")
}

func TestAServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	conn := connect(t, nil, s.addr())
	iss := zktoken.New(zktoken.Config{Conn: conn})
	tok := acquire(t, iss, "h")

	s.send("STOP")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := iss.Renew(ctx, tok, long)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, token.ErrUnreachable)
	began := time.Now()
	_, err = iss.Renew(t.Context(), tok, long)
	require.ErrorIs(t, err, token.ErrUnreachable)
	require.ErrorContains(t, err, "zktoken: ")
	require.Less(t, time.Since(began), time.Minute)
	s.send("CONT")
	locker := lock.Locker{Issuer: iss, TTL: long, WaitTimeout: time.Minute, Claim: func(context.Context, token.Token) error { return nil }}
	hold := func() {
		t.Helper()
		require.NoError(t, locker.Hold(t.Context(), "other", func(context.Context) error { return nil }))
	}
	hold()
	_, err = iss.Renew(t.Context(), tok, long)
	require.NoError(t, err)

	s.Kill()
	_, err = iss.Renew(t.Context(), tok, long)
	require.ErrorIs(t, err, token.ErrUnreachable)
	s.restart()
	hold()
	_, err = iss.Renew(t.Context(), tok, long)
	require.NoError(t, err, "the record is on disk")
}

// hazard L17
func TestAZnodeIsDeletedUnderALiveHolder(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	conn := connect(t, nil, s.addr())
	a, b := issuer(t, s.addr()), issuer(t, s.addr())
	version := func(iss *zktoken.Issuer) string {
		e, err := zktoken.StoreOf(iss).Load(t.Context(), resource)
		require.NoError(t, err)
		return e.Version
	}
	old := acquire(t, a, "a")
	before := version(a)
	require.NoError(t, conn.Delete(znode, -1))
	tok := acquire(t, b, "b")
	require.Equal(t, before, version(b), "this test must force a version that repeats")
	require.Greater(t, tok.Number, old.Number)
	_, err := a.Renew(t.Context(), old, long)
	require.ErrorIs(t, err, token.ErrLost)
	_, err = b.Renew(t.Context(), tok, long)
	require.NoError(t, err)

	_, swapped, err := zktoken.StoreOf(a).Swap(t.Context(), "none", "3", register.Record{})
	require.NoError(t, err)
	require.False(t, swapped, "it was deleted since")
}

func TestWatch(t *testing.T) {
	t.Parallel()
	s := start(t, "4lw.commands.whitelist=wchs")
	conn := connect(t, nil, s.addr())
	store := zktoken.StoreOf(zktoken.New(zktoken.Config{Conn: conn}))
	write := func(old string, number int64) string {
		e, swapped, err := store.Swap(t.Context(), resource, old, register.Record{Number: number})
		require.NoError(t, err)
		require.True(t, swapped)
		return e.Version
	}
	type event struct {
		e   register.Entry
		err error
	}
	watch := func(ctx context.Context, seen string) chan event {
		events := make(chan event, 1)
		go func() {
			e, err := store.Watch(ctx, resource, seen)
			events <- event{e, err}
		}()
		require.Eventually(t, func() bool { return len(events) == 1 || s.watches(t) == 1 }, time.Minute, time.Millisecond)
		return events
	}
	registertest.TestStore(t, store, func(key string) { require.NoError(t, conn.Delete("/fencepost/"+register.Name(key), -1)) },
		func() bool { return s.watches(t) == 1 })
	require.NoError(t, conn.Delete("/fencepost/"+register.Name(strings.Repeat("/", token.MaxNameBytes)), -1)) // and the watch that was cancelled
	third := write("", 3)
	events := watch(t.Context(), third)
	s.restart() // within the session: the client restores the watch, or it ends with an error
	fourth := ""
	require.Eventually(t, func() bool {
		e, _, err := store.Swap(t.Context(), resource, third, register.Record{Number: 4})
		fourth = e.Version
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	got := <-events
	for ; got.err != nil; got = <-watch(t.Context(), third) {
		require.ErrorIs(t, got.err, token.ErrUnreachable)
	}
	require.Equal(t, fourth, got.e.Version)

	ctx, cancel := context.WithCancel(t.Context())
	events = watch(ctx, fourth)
	cancel()
	require.ErrorIs(t, (<-events).err, context.Canceled)
	events = watch(t.Context(), fourth)
	conn.Close()
	require.ErrorContains(t, (<-events).err, "zktoken: ")
}

// watches returns how many watches the clients of the server have.
func (s *server) watches(t *testing.T) (n int) {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("wchs"))
	require.NoError(t, err)
	reply, err := io.ReadAll(conn)
	require.NoError(t, err)
	_, total, _ := strings.Cut(string(reply), "Total watches:")
	_, err = fmt.Sscan(total, &n)
	require.NoError(t, err)
	return n
}

// Three servers, each with clients of its own, of which one is killed again and again. A read
// from a server that is behind would break rules of the suite.
//
// hazard L19
func TestStressAnEnsemble(t *testing.T) {
	t.Parallel()
	var peers strings.Builder
	for i := range 3 {
		fmt.Fprintf(&peers, "server.%d=127.0.0.1:%d:%d\n", i+1, serverproc.FreePort(t), serverproc.FreePort(t))
	}
	servers, addrs := make([]*server, 3), make([]string, 3)
	for i := range servers {
		servers[i] = member(t, "binding to port", func(folder string, port int) string {
			require.NoError(t, os.MkdirAll(folder+"/data", 0o777))
			require.NoError(t, os.Chmod(folder+"/data", 0o777)) // whatever the umask is
			require.NoError(t, os.WriteFile(folder+"/data/myid", fmt.Append(nil, i+1), 0o644))
			return fmt.Sprintf("dataDir=%s/data\nclientPort=%d\nclientPortAddress=127.0.0.1\ninitLimit=20\nsyncLimit=10\n%s", folder, port, peers.String())
		})
		addrs[i] = servers[i].addr()
	}
	conform(t, 8, addrs...)

	iss := issuer(t, addrs...)
	eventually := func(call func() error) {
		t.Helper()
		var err error
		require.Eventually(t, func() bool { err = call(); return !errors.Is(err, token.ErrUnreachable) }, 2*time.Minute, 10*time.Millisecond)
		require.NoError(t, err)
	}
	last := int64(0)
	for round := range 6 {
		var g token.Grant
		eventually(func() (err error) {
			g, err = iss.Acquire(t.Context(), "killed", fmt.Sprint("h", round), long)
			return err
		})
		require.Greater(t, g.Token.Number, last)
		last = g.Token.Number
		servers[round%3].Kill()
		eventually(func() error { _, err := iss.Renew(t.Context(), g.Token, long); return err })
		servers[round%3].restart()
		eventually(func() error { return iss.Release(t.Context(), g.Token) })
	}
	servers[0].Kill()
	servers[1].Kill()
	_, err := iss.Acquire(t.Context(), "killed", "h", long)
	require.ErrorIs(t, err, token.ErrUnreachable)
}
