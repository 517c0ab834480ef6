package etcdguard_test

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fencepost/fencepost/contrib/etcdguard"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/token"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	resource = "account/42"
	// ceiling ends a test that hangs. No test depends on its length.
	ceiling = 2 * time.Minute
)

// serve starts this machine's etcd, once for all tests. It ends with the process. Its election
// takes tenths of a second.
var serve = sync.OnceValues(func() (*serverproc.Process, error) {
	path, err := exec.LookPath("etcd")
	if err != nil {
		return nil, err
	}
	return serverproc.Start(serverproc.Program{
		Title: path, Ready: "serving client traffic", Signal: "KILL",
		Argv: func(folder string, port int) []string {
			clients, peers := "http://"+serverproc.Loopback(port), "http://127.0.0.1:"+strconv.Itoa(port+serverproc.BusPort)
			return []string{
				path, "--data-dir", folder + "/data", "--logger", "zap", "--unsafe-no-fsync", "--heartbeat-interval", "20", "--election-timeout", "200",
				"--listen-client-urls", clients, "--advertise-client-urls", clients,
				"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers,
			}
		},
	})
})

// env is a test's part of a server.
type env struct {
	*testing.T
	addr   string
	client *clientv3.Client
	guard  *etcdguard.Guard
	key    string // of the data
}

func newEnv(t *testing.T) *env {
	t.Helper()
	server, err := serve()
	require.NoError(t, err, "run `make setup`, which installs etcd if it can")
	addr, prefix := serverproc.Loopback(server.Port), t.Name()+"/"
	client := connect(t, addr)
	return &env{
		T: t, addr: addr, client: client, key: prefix + "written",
		guard: &etcdguard.Guard{Client: client, Prefix: prefix + "marks/"},
	}
}

func connect(t *testing.T, addr string, change ...func(*clientv3.Config)) *clientv3.Client {
	t.Helper()
	config := clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()}
	for _, change := range change {
		change(&config)
	}
	client, err := clientv3.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// over returns the guard with another client.
func (e *env) over(client *clientv3.Client) *etcdguard.Guard {
	return &etcdguard.Guard{Client: client, Prefix: e.guard.Prefix}
}

// far returns a guard behind a network that breaks. It has a connection.
func (e *env) far() (*etcdguard.Guard, *netfault.Proxy) {
	e.Helper()
	p, err := netfault.Start(e.addr)
	require.NoError(e, err)
	e.Cleanup(p.Close)
	client := connect(e.T, p.Addr())
	_, err = client.Get(e.Context(), e.key)
	require.NoError(e, err)
	return e.over(client), p
}

// put is a guarded write of what, by g.
func (e *env) put(ctx context.Context, g *etcdguard.Guard, what string) error {
	_, err := g.Txn(ctx, resource).Then(clientv3.OpPut(e.key, what)).Commit()
	return err
}

// get returns the value of key and how often it was written.
func (e *env) get(key string) (value string, version int64) {
	e.Helper()
	resp, err := e.client.Get(context.WithoutCancel(e.Context()), key)
	require.NoError(e, err)
	if len(resp.Kvs) == 0 {
		return "", 0
	}
	return string(resp.Kvs[0].Value), resp.Kvs[0].Version
}

func (e *env) mark() string {
	e.Helper()
	value, _ := e.get(e.guard.Prefix + resource)
	return value
}

func (e *env) written() string { e.Helper(); value, _ := e.get(e.key); return value }

// hold makes a guarded write by g, whose reply p holds back, and returns when it is applied.
func (e *env) hold(p *netfault.Proxy, do func() error) <-chan error {
	e.Helper()
	_, before := e.get(e.key)
	p.Blackhole(netfault.ToClient)
	done := start(do)
	eventually(e.T, func() bool { _, now := e.get(e.key); return now > before })
	return done
}

func tok(number int64, holder string) token.Token {
	return token.Token{Resource: resource, Number: number, Holder: holder}
}

func with(ctx context.Context, number int64, holder string) context.Context {
	return token.NewContext(ctx, tok(number, holder))
}

// outcomes returns the outcomes that errors.Is finds in err: at most one.
func outcomes(err error) []error {
	var found []error
	for _, outcome := range []error{guard.ErrStale, guard.ErrRetryable, guard.ErrUnknown, guard.ErrEvicted} {
		if errors.Is(err, outcome) {
			found = append(found, outcome)
		}
	}
	return found
}

// start calls fn on a new goroutine.
func start(fn func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	return done
}

func await(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(ceiling):
		t.Fatal("it does not return")
		return nil
	}
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, ceiling, 2*time.Millisecond)
}

// requests counts the requests of a client.
func requests(methods *[]string) func(*clientv3.Config) {
	return func(c *clientv3.Config) {
		c.DialOptions = append(c.DialOptions, grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				*methods = append(*methods, method)
				return invoker(ctx, method, req, reply, cc, opts...)
			}))
	}
}
