package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	faults "github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// startServe runs fencepost serve.
func startServe(t *testing.T, args ...string) *proxied {
	t.Helper()
	p := startLogged(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--drain", "0s"}, args...)...)
	p.address = p.line("listen")["address"].(string)
	p.url = "http://" + p.address
	p.admin = p.url
	return p
}

// served are the flags of a server, with locks of the test's own.
func served(t *testing.T, server string) []string {
	t.Helper()
	_, schema := testenv.Postgres(t)
	_, prefix := testenv.Redis(t)
	switch server {
	case "redis":
		return []string{"--redis", testenv.RedisURL(t), "--key-prefix", prefix}
	case "postgres":
		return []string{"--postgres", testenv.PostgresURL(t), "--schema", schema}
	case "etcd":
		return []string{"--etcd", testenv.OwnEtcd(t).URL(), "--key-prefix", prefix}
	}
	return []string{"--memory"}
}

// put acquires a lock, or waits for it, as a holder whose request is its name.
func (p *proxied) put(name, holder string, wait time.Duration) reply {
	p.Helper()
	a, err := exchanged(p.putRequest(name, holder, wait))
	require.NoError(p, err)
	return a
}

func (p *proxied) putRequest(name, holder string, wait time.Duration) *http.Request {
	p.Helper()
	body := fmt.Sprintf(`{"holder": %q, "request": %[1]q, "ttl_ms": %d, "wait_ms": %d}`, holder, pgtest.Long.Milliseconds(), wait.Milliseconds())
	return prepared(p, "PUT", p.url+"/v1/locks/"+name, body, []string{"Content-Type", "application/json"})
}

// waits sends a request that waits, and returns when so many are in the queue.
func (p *proxied) waits(name, holder string, waiters int) <-chan reply {
	p.Helper()
	answered, r := make(chan reply, 1), p.putRequest(name, holder, 50*time.Second)
	go func() {
		a, _ := exchanged(r) // its status is 0 then
		answered <- a
	}()
	pgtest.Await(p.T, func() bool { return len(p.state(name).Queue) == waiters })
	return answered
}

func (p *proxied) release(name, holder string) {
	p.Helper()
	released := ask(p, "DELETE", p.url+"/v1/locks/"+name, fmt.Sprintf(`{"holder": %q, "request": %[1]q}`, holder), "Content-Type", "application/json")
	require.Equal(p, http.StatusNoContent, released.status, released.body)
}

type lockState struct {
	Holder string
	Queue  []string
}

func (p *proxied) state(name string) (s lockState) {
	p.Helper()
	require.NoError(p, json.Unmarshal([]byte(ask(p, "GET", p.url+"/v1/locks/"+name, "").body), &s))
	return s
}

func TestServe(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"memory", "redis", "postgres", "etcd"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			pool, schema := testenv.Postgres(t)
			marks := &sqlguard.Guard{DB: pool, Schema: schema}
			flags := served(t, server)
			if server != "postgres" {
				flags = append(flags, "--schema", schema)
			} else {
				marks.Schema = flags[3]
			}
			p := startServe(t, append(flags, "--guard", testenv.PostgresURL(t))...)
			p.ready()
			require.Equal(t, "alive\n", ask(t, "GET", p.url+"/healthz", "").body)
			require.Equal(t, 200, ask(t, "GET", p.url+"/openapi.json", "").status)
			require.Equal(t, 400, ask(t, "GET", p.url+"/v1/locks//x", "").status, "the API refuses it, and no redirect")

			granted := p.put("job/report", "web-1", 0)
			require.Equal(t, 200, granted.status, granted.body)
			var lease struct{ Number int64 }
			require.NoError(t, json.Unmarshal([]byte(granted.body), &lease))
			waiting := p.waits("job/report", "web-2", 1)
			require.Equal(t, 409, p.put("job/report", "web-3", 0).status)
			id := p.state("job/report").Holder
			require.Regexp(t, `^web-1~`, id)
			a := token.Token{Resource: "job/report", Number: lease.Number, Holder: id}
			require.NoError(t, marks.Admit(t.Context(), a))

			locks := func(args ...string) finished {
				return execute(t, append([]string{"locks", "--url", p.url}, args...)...)
			}
			listed := locks("list", "--prefix", "job/")
			require.Zero(t, listed.status, listed.err)
			require.Regexp(t, `(?m)^  job/report +web-1~\S+ +\d+ +\S+Z +\S+ +1$`, listed.out)
			require.Contains(t, locks("show", "job/report").out, "  waiter 1  web-2~")
			require.Equal(t, 1, locks("show", "job/free").status)
			requireFailed(t, locks("break", "job/report", "--holder", id, "--guard", testenv.PostgresURL(t)), 2, "the lock service has the guards")
			broken := locks("break", "job/report", "--holder", id, "--reason", "it hangs")
			require.Zero(t, broken.status, broken.err)
			require.Regexp(t, `(?s)  deposed  web-1~\S+
  by       \S+/break by \S+: it hangs
  number   \d+: later holders have a higher one
  guard    postgres://\S+: it has admitted the number, and refuses lower ones
  lease    freed
  next     web-2~\S+, which has the lock
$`, broken.out)
			require.ErrorIs(t, marks.Admit(t.Context(), a), guard.ErrStale)
			require.Equal(t, 200, next(t, waiting).status)
			again := locks("break", "job/report", "--holder", id)
			require.Equal(t, 1, again.status)
			require.Contains(t, again.out, "It has another holder: no guard and no lease was changed.")
			p.release("job/report", "web-2")

			metrics := ask(t, "GET", p.url+"/metrics", "").body
			for _, line := range []string{
				`fencepost_serve_request_seconds_count{code="200",method="put"} 2`, `fencepost_serve_request_seconds_count{code="409",method="put"} 1`,
				`fencepost_serve_request_seconds_count{code="204",method="delete"} 1`, "fencepost_serve_requests_in_flight 0",
				"process_resident_memory_bytes ",
			} {
				require.Contains(t, metrics, "\n"+line)
			}
			for _, name := range []string{"report", "web-1"} {
				require.NotContains(t, metrics, name)
			}
		})
	}
}

// Waiters of a replica that ends are granted the lock in their order, before those of others.
func TestAReplicaThatEndsKeepsThePlacesOfItsWaiters(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"redis", "postgres"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			flags := served(t, server)
			a, b := startServe(t, flags...), startServe(t, flags...)
			require.Equal(t, 200, b.put("job", "holder", 0).status)
			first := a.waits("job", "first", 1)
			second := b.waits("job", "second", 2)
			a.signal(syscall.SIGTERM)
			a.line("ending")
			require.Eventually(t, func() bool {
				conn, err := net.Dial("tcp", a.address)
				if err == nil {
					conn.Close()
				}
				return err != nil
			}, eventually, time.Millisecond, "nothing listens")
			b.release("job", "holder")
			granted := next(t, first)
			require.Equal(t, 200, granted.status, granted.body)
			require.Zero(t, a.status())
			require.Equal(t, 200, b.put("job", "first", 0).status, "another replica has its lease")
			require.Len(t, b.state("job").Queue, 1)
			b.release("job", "first")
			require.Equal(t, 200, next(t, second).status)
		})
	}
}

// /readyz fails for as long as --drain, and requests are served.
func TestDrain(t *testing.T) {
	t.Parallel()
	p := startServe(t, "--memory", "--drain", "1h")
	p.ready()
	p.signal(syscall.SIGTERM)
	p.line("ending")
	ready := ask(t, "GET", p.url+"/readyz", "")
	require.Equal(t, []any{503, "ending\n"}, []any{ready.status, ready.body})
	require.Equal(t, 200, p.put("job", "a", 0).status)
	p.signal(syscall.SIGTERM)
	require.Equal(t, -1, p.status(), "a second signal ends it at once")

	p = startServe(t, "--memory", "--drain", "1h")
	p.signal(syscall.SIGINT)
	require.Zero(t, p.status(), "a terminal has no balancer")
}

func TestServeIsNotReadyWithoutItsServer(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"redis", "postgres"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			flags := served(t, server)
			u, err := url.Parse(flags[1])
			require.NoError(t, err)
			between, err := faults.Start(u.Host)
			require.NoError(t, err)
			defer between.Close()
			u.Host = between.Addr()
			flags[1] = u.String()
			p := startServe(t, flags...)
			p.ready()
			between.Cut(faults.Both)
			require.Equal(t, 503, ask(t, "GET", p.url+"/readyz", "").status)
			require.Equal(t, 503, p.put("job", "a", 0).status)
			require.Equal(t, 200, ask(t, "GET", p.url+"/healthz", "").status)
			between.Heal(faults.Both)
			p.ready()
		})
	}
}

// certify writes a certificate for 127.0.0.1 and its key, and returns the certificate.
func certify(t *testing.T, name, cert, key string) *x509.Certificate {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{{127, 0, 0, 1}},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return parsed
}

func TestServeReadsItsFilesAgain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cert, key, rights := filepath.Join(folder, "cert"), filepath.Join(folder, "key"), filepath.Join(folder, "rights")
	allow := func(bearer string) {
		line := fmt.Sprintf("oncall %x read,break job/\n", sha256.Sum256([]byte(bearer)))
		require.NoError(t, os.WriteFile(rights, []byte(line), 0o600))
	}
	first := certify(t, "first", cert, key)
	allow("sekret-1")
	p := startServe(t, "--memory", "--rights", rights, "--tls-cert", cert, "--tls-key", key)
	client := func(root *x509.Certificate) *http.Client {
		roots := x509.NewCertPool()
		roots.AddCert(root)
		return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, DisableKeepAlives: true}}
	}
	get := func(c *http.Client, bearer, path string) (int, error) {
		r := prepared(t, "GET", "https://"+p.address+path, "", []string{"Authorization", "Bearer " + bearer})
		resp, err := c.Do(r)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		require.Equal(t, 2, resp.ProtoMajor)
		return resp.StatusCode, nil
	}
	requireStatus := func(expected int, c *http.Client, bearer, path string) {
		t.Helper()
		status, err := get(c, bearer, path)
		require.NoError(t, err)
		require.Equal(t, expected, status)
	}
	requireStatus(404, client(first), "sekret-1", "/v1/locks/job/report")
	requireStatus(403, client(first), "sekret-1", "/v1/locks/other/report")
	requireStatus(401, client(first), "sekret-2", "/v1/locks/job/report")
	requireStatus(200, client(first), "", "/healthz")

	second := certify(t, "second", cert, key)
	allow("sekret-2")
	p.signal(syscall.SIGHUP)
	p.line("the files were read again")
	requireStatus(404, client(second), "sekret-2", "/v1/locks/job/report")
	requireStatus(401, client(second), "sekret-1", "/v1/locks/job/report")
	_, err := get(client(first), "sekret-2", "/healthz")
	require.ErrorContains(t, err, "x509")

	require.NoError(t, os.WriteFile(rights, []byte("oncall sekret-3 read *\n"), 0o600))
	p.signal(syscall.SIGHUP)
	p.line("a file was not read again: the old one counts")
	requireStatus(404, client(second), "sekret-2", "/v1/locks/job/report")
	require.NotContains(t, fmt.Sprint(p.log()), "sekret")

	cmd, _ := command(t, "locks", "list", "--url", "https://"+p.address, "--prefix", "job/")
	cmd.Env = append(cmd.Env, "FENCEPOST_BEARER=sekret-2", "SSL_CERT_FILE="+cert)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "\n0 locks\n")
	cmd, _ = command(t, "locks", "list", "--url", "https://"+p.address)
	cmd.Env = append(cmd.Env, "FENCEPOST_BEARER=sekret-2", "SSL_CERT_FILE="+cert)
	out, err = cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "fencepost: httptoken: 403 Forbidden: The credential has no right to read this lock.")
}

// Without rights, another machine cannot connect, nor can a page of another site whose name
// was made to resolve to this machine.
func TestServeIsForThisMachineUnlessTold(t *testing.T) {
	t.Parallel()
	for flags, text := range map[string]string{
		"--memory --listen 0.0.0.0:0":           "--listen: 0.0.0.0:0 can be reached from other machines: give --rights, or --dangerously-open",
		"--memory --tls-cert cert":              "--tls-cert and --tls-key need each other",
		"--memory --max-waiters 0":              "--max-waiters: 0: must be above 0",
		"--memory --rights /nowhere/":           "--rights: open /nowhere/",
		"--memory --guard nonsense://u:sekret@": "--guard: neither a postgres:// or redis:// URL nor a DSN of MySQL",
		"--redis redis://:sekret@127.0.0.1:1":   "redis at 127.0.0.1:1 cannot be used",
		"":                                      "give --redis=URL, --postgres=URL, --etcd=URL or --memory",
		"--memory --redis redis://127.0.0.1:1":  "--redis and --memory exclude each other",
	} {
		requireFailed(t, execute(t, append([]string{"serve"}, strings.Fields(flags)...)...), 2, text)
	}
	requireFailed(t, execute(t, "locks", "list", "--url", "https://jo:sekret@127.0.0.1:1"), 2, "--url: not an http:// or https:// URL with a host")
	p := startServe(t, "--memory")
	open := startServe(t, "--memory", "--listen", "0.0.0.0:0", "--dangerously-open")
	open.url = strings.NewReplacer("[::]", "127.0.0.1", "0.0.0.0", "127.0.0.1").Replace(open.url)
	for host, status := range map[string]int{"evil.example": 421, "localhost.evil.example:80": 421, "localhost": 404, "localhost:8090": 404, "[::1]:8090": 404, "127.0.0.1": 404} {
		for asked, expected := range map[*proxied]int{p: status, open: 404} {
			r := prepared(t, "GET", asked.url+"/v1/locks/job", "", nil)
			r.Host = host
			a, err := exchanged(r)
			require.NoError(t, err)
			require.Equal(t, expected, a.status, host)
		}
	}
	require.Equal(t, 403, ask(t, "GET", p.url+"/v1/locks/job", "", "Origin", p.url).status)
}
