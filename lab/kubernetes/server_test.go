// Package kubernetes_test tests token/k8stoken on a real API server of Kubernetes, beside
// client-go's electors. It has no test that runs without one: scripts/kubernetes builds it.
package kubernetes_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/token/k8stoken"
)

// roles are what a process of a test can be.
var roles = map[string]func(*subprocess.Parent) error{}

func TestMain(m *testing.M) {
	subprocess.Serve(roles)
	leaktest.Main(m)
}

const (
	secret = "secret"  // the bearer token of an administrator
	long   = time.Hour // a ttl that does not end
	leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
)

type object = map[string]any

// cluster is an API server with authorization by RBAC, and the etcd below it.
type cluster struct {
	etcd, api *serverproc.Process
	program   serverproc.Program // the API server's
	ca        []byte             // trusts it
	roots     *x509.CertPool
	http      *http.Client
}

// newCluster starts a cluster, which ends with the test.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	binaries := os.Getenv("FENCEPOST_KUBERNETES")
	require.NotEmpty(t, binaries, "the tests need an API server:\nexport FENCEPOST_KUBERNETES=$(scripts/kubernetes)")
	c := &cluster{roots: x509.NewCertPool()}
	peer := "http://" + serverproc.Loopback(serverproc.FreePort(t))
	c.etcd = start(t, serverproc.Program{Title: "etcd", Ready: "ready to serve client requests", Argv: func(folder string, port int) []string {
		url := "http://" + serverproc.Loopback(port)
		return []string{
			filepath.Join(binaries, "etcd"), "--data-dir", folder + "/data", "--unsafe-no-fsync",
			"--listen-client-urls", url, "--advertise-client-urls", url,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
		}
	}})
	cert, key := serverproc.Certificate(t)
	var err error
	c.ca, err = os.ReadFile(cert)
	require.NoError(t, err)
	require.True(t, c.roots.AppendCertsFromPEM(c.ca))
	tokens := filepath.Join(filepath.Dir(cert), "tokens.csv")
	require.NoError(t, os.WriteFile(tokens, []byte(secret+",admin,admin,system:masters\n"), 0o644)) //nolint:gosec // read by the server's user
	c.program = serverproc.Program{Title: "kube-apiserver", Ready: "Serving securely", Argv: func(_ string, port int) []string {
		return []string{
			filepath.Join(binaries, "kube-apiserver"), "--etcd-servers", "http://" + serverproc.Loopback(c.etcd.Port),
			"--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--secure-port", strconv.Itoa(port),
			"--tls-cert-file", cert, "--tls-private-key-file", key,
			"--service-account-key-file", cert, "--service-account-signing-key-file", key, "--service-account-issuer", "https://127.0.0.1",
			"--authorization-mode", "RBAC", "--token-auth-file", tokens,
			"--endpoint-reconciler-type", "none", "--service-cluster-ip-range", "10.96.0.0/16",
		}
	}}
	c.api = start(t, c.program)
	c.http = c.client(t)
	c.await(t)
	return c
}

func start(t *testing.T, p serverproc.Program) *serverproc.Process {
	t.Helper()
	server, err := serverproc.Start(p)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Remove()) })
	return server
}

// second returns the same cluster, as another API server over its etcd serves it.
func (c *cluster) second(t *testing.T) *cluster {
	t.Helper()
	other := *c
	other.api = start(t, c.program)
	other.await(t)
	return &other
}

// client returns a client that trusts the server. Its connections end with the test.
func (c *cluster) client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: c.roots}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (c *cluster) url() string { return "https://" + serverproc.Loopback(c.api.Port) }

// await returns when the server is ready and has the namespace of the tests.
func (c *cluster) await(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		ready, _ := c.request(t, http.MethodGet, "/readyz", nil, nil)
		namespace, _ := c.request(t, http.MethodGet, "/api/v1/namespaces/default", nil, nil)
		return ready == http.StatusOK && namespace == http.StatusOK
	}, serverproc.Timeout, 50*time.Millisecond)
}

// request sends a request of the administrator, and decodes the reply into reply if that is
// not nil. The status is 0 if there is no reply.
func (c *cluster) request(t *testing.T, method, path string, body, reply any) (status int, text string) {
	var sent []byte
	if body != nil {
		sent, _ = json.Marshal(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, c.url()+path, bytes.NewReader(sent))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	if method == http.MethodGet { // as kubectl does, if the reply is no table
		req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io, application/json")
	}
	r, err := c.http.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	got, _ := io.ReadAll(r.Body)
	if reply != nil {
		_ = json.Unmarshal(got, reply)
	}
	return r.StatusCode, string(got)
}

// must is request, and fails the test if the server refuses.
func (c *cluster) must(t *testing.T, method, path string, body, reply any) {
	t.Helper()
	status, text := c.request(t, method, path, body, reply)
	require.Contains(t, []int{http.StatusOK, http.StatusCreated}, status, "%s %s: %s", method, path, text)
}

// account makes a service account with a role that has the verbs on Leases, and returns
// the path of its tokens.
func (c *cluster) account(t *testing.T, name string, verbs ...string) {
	t.Helper()
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
	metadata := object{"name": name}
	c.must(t, http.MethodPost, "/api/v1/namespaces/default/serviceaccounts", object{"metadata": metadata}, nil)
	c.must(t, http.MethodPost, rbac+"/roles", object{"metadata": metadata, "rules": []object{
		{"apiGroups": []string{"coordination.k8s.io"}, "resources": []string{"leases"}, "verbs": verbs},
	}}, nil)
	c.must(t, http.MethodPost, rbac+"/rolebindings", object{
		"metadata": metadata,
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
		"subjects": []object{{"kind": "ServiceAccount", "name": name, "namespace": "default"}},
	}, nil)
}

// writeToken writes a token of the account into the file. If bound is not empty, the token
// ends with the Secret of that name.
func (c *cluster) writeToken(t *testing.T, file, account, bound string) {
	t.Helper()
	spec := object{"audiences": []string{"https://127.0.0.1"}, "expirationSeconds": 3600}
	if bound != "" {
		spec["boundObjectRef"] = object{"kind": "Secret", "apiVersion": "v1", "name": bound}
	}
	var reply struct{ Status struct{ Token string } }
	c.must(t, http.MethodPost, "/api/v1/namespaces/default/serviceaccounts/"+account+"/token", object{"spec": spec}, &reply)
	require.NotEmpty(t, reply.Status.Token)
	require.NoError(t, os.WriteFile(file, []byte(reply.Status.Token+"\n"), 0o600))
}

// issuer returns an issuer with connections of its own and the token in the file; if file is
// empty, with that of the administrator.
func (c *cluster) issuer(t *testing.T, file string) *k8stoken.Issuer {
	t.Helper()
	if file == "" {
		file = filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(file, []byte(secret), 0o600))
	}
	return k8stoken.New(k8stoken.Config{URL: c.url(), TokenFile: file, Client: c.client(t)})
}
