package consultoken_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/token/consultoken"
)

const (
	resource = "account/42"
	key      = "fencepost/account=2F42" // of resource
	long     = time.Hour                // a ttl that does not end
)

// server is a server of a Consul, with its data on disk. It is removed at the end of the test.
type server struct {
	*serverproc.Process
	rpc    int // port
	scheme string
	token  string // of the administrator
	http   *http.Client
}

// newServer starts a server with additional settings in HCL, and returns when it has a
// leader.
func newServer(t *testing.T, settings string) *server {
	t.Helper()
	s := startServer(t, "http", "bootstrap_expect = 1\n"+settings, nil)
	s.await(t)
	return s
}

// newCluster starts three servers, and returns when they have a leader.
func newCluster(t *testing.T, settings string) (all []*server) {
	t.Helper()
	var ports []int
	var join []string
	for range 3 {
		ports = append(ports, serverproc.FreePort(t))
		join = append(join, strconv.Quote(serverproc.Loopback(ports[len(ports)-1]+serverproc.BusPort)))
	}
	settings += "\nbootstrap_expect = 3\nretry_interval = \"100ms\"\nretry_join = [" + strings.Join(join, ", ") + "]"
	for i, rpc := range ports {
		all = append(all, startServerAt(t, rpc, "http", settings+"\nnode_id = \"00000000-0000-0000-0000-00000000000"+strconv.Itoa(i)+"\"", nil))
	}
	for _, s := range all {
		s.await(t)
	}
	return all
}

// leader returns the leader of the servers when one of these is, and the others.
func leader(t *testing.T, servers ...*server) (leader *server, others []*server) {
	t.Helper()
	require.Eventually(t, func() bool {
		for i, s := range servers {
			address := strconv.Quote(serverproc.Loopback(s.rpc))
			if _, text, _ := s.send(t, http.MethodGet, "/v1/status/leader", nil); strings.TrimSpace(text) == address {
				leader, others = s, slices.Delete(slices.Clone(servers), i, i+1)
			}
		}
		return leader != nil
	}, serverproc.Timeout, 20*time.Millisecond)
	return leader, others
}

// startServer does not wait for a leader.
func startServer(t *testing.T, scheme, settings string, config *tls.Config) *server {
	t.Helper()
	return startServerAt(t, serverproc.FreePort(t), scheme, settings, config)
}

func startServerAt(t *testing.T, rpc int, scheme, settings string, config *tls.Config) *server {
	t.Helper()
	folder := os.Getenv("FENCEPOST_CONSUL")
	require.NotEmpty(t, folder, "this test needs a Consul:\nexport FENCEPOST_CONSUL=$(scripts/consul)")
	ports := map[string]int{"http": -1, "server": rpc, "serf_lan": rpc + serverproc.BusPort, "serf_wan": -1, "dns": -1, "grpc": -1, "grpc_tls": -1}
	process, err := serverproc.Start(serverproc.Program{Title: "consul", Ready: "Consul agent running!", Argv: func(data string, port int) []string {
		ports[scheme] = port
		common, err := json.Marshal(map[string]any{"ports": ports, "performance": map[string]any{"raft_multiplier": 1}, "disable_update_check": true})
		require.NoError(t, err)
		return []string{
			filepath.Join(folder, "consul"), "agent", "-server", "-node", "n" + strconv.Itoa(rpc), "-data-dir", data + "/data",
			"-bind", "127.0.0.1", "-client", "127.0.0.1", "-hcl", string(common), "-hcl", settings,
		}
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, process.Remove()) })
	return &server{Process: process, rpc: rpc, scheme: scheme, http: client(t, config)}
}

func (s *server) url() string { return s.scheme + "://" + serverproc.Loopback(s.Port) }

// await returns when the server has a leader, which takes writes.
func (s *server) await(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		status, text, _ := s.send(t, http.MethodPut, "/v1/kv/ready", []byte("ready"))
		return status == http.StatusOK || strings.Contains(text, "Permission denied")
	}, serverproc.Timeout, 20*time.Millisecond)
}

// restart kills the server if it runs, and starts it with its data.
func (s *server) restart(t *testing.T) {
	t.Helper()
	require.NoError(t, s.Restart())
	s.await(t)
}

// backup copies the data of the server in between. restore restarts it with that copy, as a
// new server after a disaster does: all later writes are lost, and indexes repeat.
func (s *server) backup(t *testing.T) (restore func()) {
	t.Helper()
	replace := func(from, to string) {
		s.Kill()
		cmd := exec.Command("sh", "-c", `rm -rf "$2" && cp -a "$1" "$2"`, "sh", from, to)
		cmd.Dir = s.Folder
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		s.restart(t)
	}
	replace("data", "backup")
	return func() { replace("backup", "data") }
}

// send sends a request of the administrator. The status is 0 if there is no reply.
func (s *server) send(t *testing.T, method, path string, body []byte) (status int, text string, header http.Header) {
	req, err := http.NewRequestWithContext(t.Context(), method, s.url()+path, bytes.NewReader(body))
	if err != nil {
		return 0, err.Error(), nil
	}
	req.Header.Set("X-Consul-Token", s.token)
	r, err := s.http.Do(req)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer r.Body.Close()
	got, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error(), nil
	}
	return r.StatusCode, string(got), r.Header
}

// must is send, and fails the test if the server refuses.
func (s *server) must(t *testing.T, method, path string, body []byte) string {
	t.Helper()
	status, text, _ := s.send(t, method, path, body)
	require.Equal(t, http.StatusOK, status, "%s %s: %s", method, path, text)
	return text
}

// policy makes a token with the rules, and returns its secret.
func (s *server) policy(t *testing.T, name, rules string) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{"Name": name, "Rules": rules})
	require.NoError(t, err)
	s.must(t, http.MethodPut, "/v1/acl/policy", body)
	var made struct{ SecretID string }
	text := s.must(t, http.MethodPut, "/v1/acl/token", []byte(`{"Policies":[{"Name":"`+name+`"}]}`))
	require.NoError(t, json.Unmarshal([]byte(text), &made))
	return made.SecretID
}

func (s *server) issuer(t *testing.T) *consultoken.Issuer {
	t.Helper()
	return consultoken.New(consultoken.Config{URL: s.url(), Token: s.token, Client: client(t, nil)})
}

// client returns a client whose connections are closed at the end of the test.
func client(t *testing.T, config *tls.Config) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// again repeats a call whose connection the server's end has broken.
func again(call func() error, outage error) error {
	for {
		if err := call(); !errors.Is(err, outage) {
			return err
		}
	}
}
