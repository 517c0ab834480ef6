package testenv

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

// EtcdServer is a member of an etcd for one test. Its methods must be called from the
// test's goroutine, and fail the test if they fail.
type EtcdServer struct {
	own    own
	scheme string
	tls    *tls.Config // of the test's own client
	peers  *etcdPeers  // of a cluster
}

// OwnEtcd starts this machine's etcd with additional settings in the form of its command
// line ("--auth-token", "jwt"), as the one member of its cluster. If the first are
// "--cert-file", cert, "--key-file", key, it takes TLS. It is removed at the end of the test.
func OwnEtcd(t testing.TB, settings ...string) *EtcdServer {
	t.Helper()
	peer := serverproc.Loopback(serverproc.FreePort(t))
	s := &EtcdServer{}
	s.launch(t, 0, peer, []string{peer}, settings)
	s.isHealthy()
	return s
}

// EtcdCluster starts an etcd of three members, and returns when it has a leader. A leader
// that does not answer is replaced after a third of a second.
func EtcdCluster(t testing.TB) []*EtcdServer {
	t.Helper()
	network := &etcdPeers{open: map[*http.Request]peerRequest{}}
	members, own, relays := []*EtcdServer{{peers: network}, {peers: network}, {peers: network}}, []string{}, []string{}
	for i, s := range members {
		own = append(own, serverproc.Loopback(serverproc.FreePort(t)))
		relays = append(relays, network.relay(t, s, own[i]))
	}
	for i, s := range members {
		s.launch(t, i, own[i], relays, []string{"--heartbeat-interval", "30", "--election-timeout", "300"})
	}
	for _, s := range members {
		s.isHealthy()
	}
	return members
}

// launch starts a member that listens to its peers at listen, of the cluster with these addresses
// of peers, and does not wait for the others.
func (s *EtcdServer) launch(t testing.TB, i int, listen string, peers, settings []string) {
	t.Helper()
	s.scheme = "http"
	if n := slices.Index(settings, "--cert-file"); n >= 0 {
		pair, err := tls.LoadX509KeyPair(settings[n+1], settings[n+3])
		if err != nil {
			t.Fatalf("testenv: %v", err)
		}
		s.scheme = "https"
		s.tls = &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}} //nolint:gosec // any certificate
	}
	var cluster []string
	for n, peer := range peers {
		cluster = append(cluster, fmt.Sprintf("%d=http://%s", n, peer))
	}
	path, err := exec.LookPath("etcd")
	argv := func(folder string, port int) []string {
		clients := s.scheme + "://" + serverproc.Loopback(port)
		return append([]string{
			path, "--name", strconv.Itoa(i), "--data-dir", folder + "/data", "--logger", "zap",
			"--listen-client-urls", clients, "--advertise-client-urls", clients,
			"--listen-peer-urls", "http://" + listen, "--initial-advertise-peer-urls", "http://" + peers[i], "--initial-cluster", strings.Join(cluster, ","),
		}, settings...)
	}
	s.own = startOwn(t, serverproc.Program{Title: path, Argv: argv, Ready: "became follower at term"}, err)
}

// Addr returns the address for clients, "127.0.0.1:port". It is the same after a restart.
func (s *EtcdServer) Addr() string { return serverproc.Loopback(s.own.Port) }

// URL returns the URL for clients.
func (s *EtcdServer) URL() string { return s.scheme + "://" + s.Addr() }

// Kill ends the member, as `kill -9` or a power cut does, and waits for its end.
func (s *EtcdServer) Kill() { s.own.Kill() }

// Restart starts the member again with the same ports, folder and settings, and returns
// when it has a leader. It kills a running member first.
func (s *EtcdServer) Restart() {
	s.own.t.Helper()
	s.Start()
	s.isHealthy()
}

// Start is Restart for a member that has no majority yet: it does not wait for a leader.
func (s *EtcdServer) Start() { s.own.t.Helper(); s.own.restart() }

// Pause stops the member and leaves its connections open: it does not answer until Resume.
func (s *EtcdServer) Pause() { s.own.t.Helper(); s.own.signal("STOP") }

// Resume continues a paused member.
func (s *EtcdServer) Resume() { s.own.t.Helper(); s.own.signal("CONT") }

// Backup restarts the member, and copies its data in between. restore restarts it with
// that copy, as after a disaster: all later writes are lost, and revisions repeat.
func (s *EtcdServer) Backup() (restore func()) {
	s.own.t.Helper()
	s.copyTo("data", "backup")
	return func() { s.own.t.Helper(); s.copyTo("backup", "data") }
}

func (s *EtcdServer) copyTo(from, to string) {
	s.own.t.Helper()
	s.Kill()
	cmd := exec.Command("sh", "-c", `rm -rf "$2" && cp -a "$1" "$2"`, "sh", from, to)
	cmd.Dir = s.own.Folder
	if out, err := cmd.CombinedOutput(); err != nil {
		s.own.t.Fatalf("testenv: a copy of etcd's data: %v: %s", err, out)
	}
	s.Restart()
}

// EtcdLeader returns the member that is the leader, when one of those that run is.
func EtcdLeader(members ...*EtcdServer) (leader *EtcdServer) {
	t := members[0].own.t
	t.Helper()
	for deadline := time.Now().Add(serverproc.Timeout); ; time.Sleep(5 * time.Millisecond) {
		for _, s := range members {
			var status struct {
				Header struct {
					MemberID string `json:"member_id"`
				}
				Leader string
			}
			if s.own.Running() && s.ask("/v3/maintenance/status", &status) == nil && status.Leader == status.Header.MemberID {
				return s
			}
		}
		if time.Now().After(deadline) || t.Context().Err() != nil {
			t.Fatal("testenv: no member of etcd is the leader")
		}
	}
}

// isHealthy returns when the member has a leader.
func (s *EtcdServer) isHealthy() {
	s.own.t.Helper()
	var err error
	for deadline := time.Now().Add(serverproc.Timeout); ; time.Sleep(5 * time.Millisecond) {
		var status struct{ Health string }
		if err = s.ask("/health", &status); err == nil && status.Health == "true" {
			return
		}
		if time.Now().After(deadline) || s.own.t.Context().Err() != nil {
			s.own.t.Fatalf("testenv: etcd at %s has no leader: %v", s.Addr(), err)
		}
	}
}

// ask sends an empty request to the member, over TLS whatever its certificate is.
func (s *EtcdServer) ask(path string, reply any) error {
	transport := &http.Transport{TLSClientConfig: s.tls}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Second} // a paused member
	method := http.MethodPost
	if path == "/health" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(s.own.t.Context(), method, s.URL()+path, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	r, err := client.Do(req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	return json.NewDecoder(r.Body).Decode(reply)
}
