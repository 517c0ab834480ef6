package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
)

// eventually is far longer than a busy machine needs: it only ends a hang.
const eventually = 2 * time.Minute

// shortWait is a --wait that tests let pass. A request to a store on a busy machine takes
// less.
const shortWait = "3s"

// proxied is the command as a process, with the lines of its log.
type proxied struct {
	*testing.T
	cmd     *exec.Cmd
	url     string
	address string
	admin   string
	ended   chan struct{}

	mu    sync.Mutex
	lines []map[string]any
}

// startProxy runs the command, with a log that the test reads, and ends it after
// the test. Unless args set others, its timeouts only end a hang.
func startProxy(t *testing.T, upstream string, args ...string) *proxied {
	t.Helper()
	p := startLogged(t, append([]string{"proxy", "--upstream", upstream, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--log-format", "json", "--wait", "2m", "--timeout", "2m"}, args...)...)
	p.address = p.line("listen")["address"].(string)
	p.admin = "http://" + p.line("admin")["address"].(string)
	p.url = "http://" + p.address
	return p
}

// startLogged runs a command that logs JSON, and ends it after the test.
func startLogged(t *testing.T, args ...string) *proxied {
	t.Helper()
	cmd, _ := command(t, args...)
	p := &proxied{T: t, cmd: cmd, ended: make(chan struct{})}
	read, write, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stderr = write
	require.NoError(t, cmd.Start())
	require.NoError(t, write.Close())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.read(read)
	}()
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // its status is in cmd
		<-done
		read.Close()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.ended
	})
	return p
}

func (p *proxied) read(from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line map[string]any
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			line = map[string]any{"msg": "", "text": lines.Text()}
		}
		p.mu.Lock()
		p.lines = append(p.lines, line)
		p.mu.Unlock()
	}
}

// ready waits until the store has answered a probe, which has a bound of its own.
func (p *proxied) ready() {
	p.Helper()
	require.Eventually(p, func() bool {
		a, err := exchanged(prepared(p, "GET", p.admin+"/readyz", "", nil))
		return err == nil && a.status == http.StatusOK
	}, eventually, 10*time.Millisecond)
}

// log returns the lines up to now.
func (p *proxied) log() []map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]map[string]any(nil), p.lines...)
}

// line waits for the first line of that message.
func (p *proxied) line(message string) map[string]any {
	p.Helper()
	for deadline := time.Now().Add(eventually); ; time.Sleep(time.Millisecond) {
		for _, line := range p.log() {
			if line["msg"] == message {
				return line
			}
		}
		select {
		case <-p.ended:
			require.FailNow(p, "the process has ended", "%v: %v", p.cmd.ProcessState, p.log())
		default:
			require.True(p, time.Now().Before(deadline), "no line %q: %v", message, p.log())
		}
	}
}

// Status waits for the end of the process.
func (p *proxied) status() int {
	p.Helper()
	select {
	case <-p.ended:
	case <-time.After(eventually):
		require.FailNow(p, "the process does not end", "%v", p.log())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *proxied) signal(s syscall.Signal) {
	p.Helper()
	require.NoError(p, p.cmd.Process.Signal(s))
}

// reply is what a client got.
type reply struct {
	status  int
	body    string
	problem string // the type's last word
	header  http.Header
}

// prepared is a request that can be sent anywhere, also on another goroutine.
func prepared(t testing.TB, method, target, body string, header []string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// exchanged sends r over a connection of its own.
func exchanged(r *http.Request) (reply, error) {
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	a := reply{status: response.StatusCode, body: string(text), header: response.Header}
	var pr struct{ Type string }
	if json.Unmarshal(text, &pr) == nil {
		_, a.problem, _ = strings.Cut(pr.Type, "#")
	}
	return a, err
}

func ask(t testing.TB, method, target, body string, header ...string) reply {
	t.Helper()
	a, err := exchanged(prepared(t, method, target, body, header))
	require.NoError(t, err)
	return a
}

// field is a header's name and value.
func field(t testing.TB, resource string, number int64, holder string) []string {
	t.Helper()
	tok, err := token.New(resource, number, holder)
	require.NoError(t, err)
	text, err := httpguard.Format(tok)
	require.NoError(t, err)
	return []string{httpguard.Header, text}
}

// postgresStore is a schema of the test's own, as flags.
func postgresStore(t *testing.T) []string {
	t.Helper()
	_, schema := testenv.Postgres(t)
	return postgresFlags(t, schema)
}

// postgresFlags is a schema of the shared server, as flags. The pool connects by itself: a
// request whose --wait has passed discards its connection. On a machine so busy that a
// connect takes longer than a short --wait, no request would ever be admitted.
func postgresFlags(t *testing.T, schema string) []string {
	t.Helper()
	u, err := url.Parse(testenv.PostgresURL(t))
	require.NoError(t, err)
	query := u.Query()
	query.Set("pool_min_conns", "4")
	query.Set("pool_health_check_period", "50ms")
	u.RawQuery = query.Encode()
	return []string{"--store", u.String(), "--schema", schema}
}

// gated is an upstream that holds each write until the test releases it, and records the
// writes that it has applied.
type gated struct {
	*httptest.Server
	arrived chan string   // the bodies, in their order
	open    chan struct{} // one for each write that may continue

	mu      sync.Mutex
	applied []string
}

func newGated(t *testing.T) *gated {
	t.Helper()
	g := &gated{arrived: make(chan string, 100), open: make(chan struct{}, 100)}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the request was not complete
		}
		g.arrived <- string(body)
		<-g.open // also if the proxy has disconnected: some servers continue
		g.mu.Lock()
		g.applied = append(g.applied, string(body))
		g.mu.Unlock()
		_, _ = io.WriteString(w, "applied "+string(body))
	}))
	t.Cleanup(func() {
		close(g.open)
		g.Close()
	})
	return g
}

func (g *gated) writes() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.applied...)
}

// async starts a request. If it fails, the status of the reply is 0.
func async(t *testing.T, method, target, body string, header ...string) <-chan reply {
	t.Helper()
	return sent(prepared(t, method, target, body, header), func(int) bool { return false })
}

// insist is async for a request that must get in through a proxy with a short --wait: it
// is sent again while the response is that older requests are still in flight.
func insist(t *testing.T, method, target, body string, header ...string) <-chan reply {
	t.Helper()
	return sent(prepared(t, method, target, body, header), func(status int) bool { return status == http.StatusServiceUnavailable })
}

func sent(r *http.Request, again func(status int) bool) <-chan reply {
	done := make(chan reply, 1)
	go func() {
		for {
			attempt := r.Clone(r.Context())
			attempt.Body, _ = r.GetBody() // a string's: it cannot fail
			a, err := exchanged(attempt)
			if err != nil {
				a.body = err.Error()
			}
			if !again(a.status) {
				done <- a
				return
			}
		}
	}()
	return done
}

func next[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(eventually):
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

// raw sends bytes and returns the status of the answer.
func raw(t *testing.T, address, text string) int {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	response.Body.Close()
	return response.StatusCode
}

// begun sends text, and returns the connection.
func (p *proxied) begun(format string, args ...any) net.Conn {
	p.Helper()
	conn, err := net.Dial("tcp", p.address)
	require.NoError(p, err)
	p.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\r\n"))
	require.NoError(p, err)
	return conn
}

func TestProxyFlagsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ args, text string }{
		"no store":                 {"--resource a/{id}", "give --store=URL or --dangerously-memory, or set FENCEPOST_STORE or FENCEPOST_PROXY_DANGEROUSLY_MEMORY"},
		"two stores":               {"--resource a/{id} --store postgres://x --dangerously-memory", "--store and --dangerously-memory exclude each other"},
		"no resource":              {"--dangerously-memory", "missing flags: --resource"},
		"a wildcard of no route":   {"--dangerously-memory --resource /a/{id}=x/{ix}", "--resource: /a/{id}=x/{ix}: the route does not have the wildcards"},
		"an open brace":            {"--dangerously-memory --resource a/{id", "want {name}"},
		"a route without a name":   {"--dangerously-memory --resource /a/{id}", "which resource?"},
		"a route without a path":   {"--dangerously-memory --resource PUT=x", `"PUT" has no path`},
		"an empty name":            {"--dangerously-memory --resource /a/{id}=", "empty"},
		"two names without route":  {"--dangerously-memory --resource a/{id},b", "which resource?"},
		"a wildcard given twice":   {"--dangerously-memory --resource /a/{id}/{id}=x", "duplicate wildcard name"},
		"routes in conflict":       {"--dangerously-memory --resource /x/{y}=z --resource /{a}/x=b", `conflicts with pattern "/x/{y}"`},
		"an upstream of no kind":   {"--dangerously-memory --resource a/{id} --upstream ftp://x", "--upstream: want http://"},
		"an upstream's password":   {"--dangerously-memory --resource a/{id} --upstream http://u:sekret@x", "--upstream: want http://"},
		"no upstream at all":       {"--dangerously-memory --resource a/{id} --upstream http://u:sekret@x:y", "--upstream: "},
		"a store of no kind":       {"--resource a/{id} --store http://u:sekret@x:1", "--store: neither"},
		"a store that is not read": {"--resource a/{id} --store redis://:sekret@x:1/one", "--store: not a redis:// URL"},
		"a postgres without //":    {"--resource a/{id} --store postgres:u:sekret@db:5432/shop?sslmode=disable", "--store: neither a postgres://"},
		"a store without //":       {"--resource a/{id} --store redis:u:sekret@locks:6379?db=1", "--store: not a redis:// URL with a host"},
		"postgres is not there":    {"--resource a/{id} --store postgres://u:sekret@127.0.0.1:1/db", "postgres cannot be used"},
		"redis is not there":       {"--resource a/{id} --store redis://u:sekret@127.0.0.1:1", "redis at 127.0.0.1:1 cannot be used"},
		"a time of none":           {"--dangerously-memory --resource a/{id} --timeout 0s", "--timeout, --wait, --max-in-flight and --max-body must be above 0"},
		"no file of keys":          {"--dangerously-memory --resource a/{id} --signature-keys /nowhere", "--signature-keys: open /nowhere"},
		"an address that is taken": {"--dangerously-memory --resource a/{id} --listen 256.0.0.1:1", "--listen: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"proxy"}
			if !strings.Contains(c.args, "--upstream") {
				args = append(args, "--upstream", "http://127.0.0.1:1")
			}
			requireFailed(t, execute(t, append(args, strings.Fields(c.args)...)...), 2, c.text)
		})
	}
}

func TestProxyWantsAMigratedSchema(t *testing.T) {
	t.Parallel()
	done := execute(t, "proxy", "--upstream", "http://127.0.0.1:1", "--resource", "a/{id}",
		"--store", testenv.PostgresURL(t), "--schema", "not there")
	require.Equal(t, 2, done.status)
	require.Contains(t, done.err, `schema "not there" lacks what the migrations make: run fencepost migrate up`)
}
