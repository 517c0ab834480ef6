package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

type server struct {
	addr      string
	tokenFile string // has the token of Kubernetes' administrator
}

// insecure trusts any certificate: the API server's is new.
func insecure() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// serve starts a server that ends with e, and returns its address when url answers 200.
func (e *env) serve(title, ready, url string, argv func(folder string, port int) []string) (addr string) {
	p := must(serverproc.Start(serverproc.Program{Title: title, Ready: ready, Argv: argv}))
	e.later(func() { check(p.Remove()) })
	addr = serverproc.Loopback(p.Port)
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{TLSClientConfig: insecure(), DisableKeepAlives: true}}
	for deadline := time.Now().Add(serverproc.Timeout); url != ""; time.Sleep(20 * time.Millisecond) {
		r, err := client.Do(must(http.NewRequest(http.MethodGet, fmt.Sprintf(url, addr), nil)))
		if err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				break
			}
			err = errors.New(r.Status)
		}
		if time.Now().After(deadline) {
			check(fmt.Errorf("%s at %s: %w", title, addr, err))
		}
	}
	return addr
}

// program returns the path of a program in the folder that a variable names, or else of this
// machine's.
func program(variable, name, how string) string {
	if folder := os.Getenv(variable); folder != "" {
		return filepath.Join(folder, name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		check(fmt.Errorf("%w: %s", err, how))
	}
	return path
}

// folder returns a new folder that ends with e. Servers of root run as another user.
func (e *env) folder() string {
	folder := must(os.MkdirTemp("", "stores-"))
	e.later(func() { _ = os.RemoveAll(folder) })
	check(os.Chmod(folder, 0o755))
	return folder
}

func startEtcd(e *env) server {
	path := program("FENCEPOST_KUBERNETES", "etcd", "apt-get install etcd-server, or export FENCEPOST_KUBERNETES=$(scripts/kubernetes)")
	return server{addr: e.serve(path, "became follower at term", "http://%s/health", func(folder string, port int) []string {
		clients, peers := "http://"+serverproc.Loopback(port), "http://"+serverproc.Loopback(port+serverproc.BusPort)
		return []string{
			path, "--data-dir", folder + "/data", "--logger", "zap", "--listen-client-urls", clients, "--advertise-client-urls", clients,
			"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers,
		}
	})}
}

// startNATS builds the server from natstoken's module of it. It syncs each write.
func startNATS(e *env) server {
	path := e.folder() + "/nats-server"
	build := exec.Command("go", "build", "-modfile=go.mod", "-o", path, "github.com/nats-io/nats-server/v2")
	build.Dir, build.Env = "../../contrib/natstoken/internal/server", append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		check(fmt.Errorf("go build in %s: %w: %s", build.Dir, err, out))
	}
	return server{addr: e.serve(path, "Server is ready", "", func(folder string, port int) []string {
		config := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, sync_interval: always }\n", serverproc.Loopback(port), folder+"/data")
		check(os.WriteFile(folder+"/server.conf", []byte(config), 0o644))
		return []string{path, "-c", folder + "/server.conf"}
	})}
}

// startZooKeeper starts Debian's. Its main jar does not name the log to stderr.
func startZooKeeper(e *env) server {
	const jars = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"
	java := program("", "java", "apt-get install zookeeper default-jre-headless")
	return server{addr: e.serve("ZooKeeper", "ZooKeeperServer - Snapshot taken", "", func(folder string, port int) []string {
		config := fmt.Sprintf("dataDir=%s/data\nclientPort=%d\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n", folder, port)
		check(os.WriteFile(folder+"/zoo.cfg", []byte(config), 0o644))
		return []string{java, "-cp", jars, "org.apache.zookeeper.server.quorum.QuorumPeerMain", folder + "/zoo.cfg"}
	})}
}

// startConsul starts a server, and no agent beside it.
func startConsul(e *env) server {
	path := program("FENCEPOST_CONSUL", "consul", "export FENCEPOST_CONSUL=$(scripts/consul)")
	rpc, reserved, err := serverproc.ReservePort()
	check(err)
	e.later(func() { _ = reserved.Close() })
	return server{addr: e.serve(path, "Consul agent running!", "http://%s/v1/catalog/nodes?consistent", func(folder string, port int) []string {
		ports := fmt.Sprintf("ports { http = %d, server = %d, serf_lan = %d, serf_wan = -1, dns = -1, grpc = -1, grpc_tls = -1 }", port, rpc, port+serverproc.BusPort)
		return []string{
			path, "agent", "-server", "-node", "one", "-data-dir", folder + "/data", "-bind", "127.0.0.1", "-client", "127.0.0.1",
			"-hcl", ports, "-hcl", "bootstrap_expect = 1, disable_update_check = true",
		}
	})}
}

// startKubernetes starts an API server and the etcd below it.
func startKubernetes(e *env) server {
	klog.SetLogger(logr.Discard()) // of client-go
	path := program("FENCEPOST_KUBERNETES", "kube-apiserver", "export FENCEPOST_KUBERNETES=$(scripts/kubernetes)")
	etcd, folder := startEtcd(e).addr, e.folder()
	cert, key, err := serverproc.Certify(folder)
	check(err)
	check(os.WriteFile(folder+"/token", []byte("secret"), 0o644))
	check(os.WriteFile(folder+"/tokens.csv", []byte("secret,admin,admin,system:masters\n"), 0o644))
	return server{tokenFile: folder + "/token", addr: e.serve(path, "Serving securely", "https://%s/readyz", func(_ string, port int) []string {
		return []string{
			path, "--etcd-servers", "http://" + etcd, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1",
			"--secure-port", strconv.Itoa(port), "--tls-cert-file", cert, "--tls-private-key-file", key,
			"--service-account-key-file", cert, "--service-account-signing-key-file", key, "--service-account-issuer", "https://127.0.0.1",
			"--authorization-mode", "RBAC", "--token-auth-file", folder + "/tokens.csv", "--endpoint-reconciler-type", "none", "--service-cluster-ip-range", "10.96.0.0/16",
		}
	})}
}
