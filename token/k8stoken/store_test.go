package k8stoken_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/k8stoken"
)

// status is a reply of the server that is no success.
func status(code int, message, reason string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code)
}

// replying returns a store whose server replies to each request in turn, and then to all
// with the last reply.
func replying(t *testing.T, replies ...string) (register.Store, func() []string) {
	t.Helper()
	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type"))
		code, text, _ := strings.Cut(replies[min(len(requests), len(replies))-1], " ")
		var n int
		_, _ = fmt.Sscan(code, &n)
		w.WriteHeader(n)
		_, _ = fmt.Fprint(w, text)
	}))
	t.Cleanup(server.Close)
	return k8stoken.StoreOf(k8stoken.New(k8stoken.Config{URL: server.URL + "/", Namespace: "ns", Client: server.Client()})), func() []string { return requests }
}

func TestASwap(t *testing.T) {
	t.Parallel()
	const path = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
	created := `201 ` + strings.Replace(ofElector, "%s", "", 1)
	next := register.Record{Number: 5, Holder: "h"}
	for what, c := range map[string]struct {
		old     string
		replies []string
		want    register.Entry
		swapped bool
		sent    []string
	}{
		"the first":   {"", []string{created}, register.Entry{Record: next, Version: "198"}, true, []string{"POST " + path + " application/json"}},
		"a later one": {"7", []string{"200 " + created[4:]}, register.Entry{Record: next, Version: "198"}, true, []string{"PATCH " + path + "/operator application/merge-patch+json"}},
		"lost to another first one": {
			"", []string{"409 " + status(409, `leases.coordination.k8s.io "operator" already exists`, "AlreadyExists"), "200 " + created[4:]},
			register.Entry{Record: register.Record{Holder: "elector-1", TTL: 15_000, Beat: 1795983245981664}, Version: "198"}, false,
			[]string{"POST " + path + " application/json", "GET " + path + "/operator application/json"},
		},
		"lost to another write": {
			"7", []string{"409 " + status(409, `Operation cannot be fulfilled on leases.coordination.k8s.io "operator": the object has been modified; please apply your changes to the latest version and try again`, "Conflict"), "200 " + created[4:]},
			register.Entry{Record: register.Record{Holder: "elector-1", TTL: 15_000, Beat: 1795983245981664}, Version: "198"}, false,
			[]string{"PATCH " + path + "/operator application/merge-patch+json", "GET " + path + "/operator application/json"},
		},
		"the Lease was deleted": {
			"7", []string{"404 " + status(404, `leases.coordination.k8s.io "operator" not found`, "NotFound")},
			register.Entry{}, false, []string{"PATCH " + path + "/operator application/merge-patch+json", "GET " + path + "/operator application/json"},
		},
	} {
		store, sent := replying(t, c.replies...)
		e, swapped, err := store.Swap(t.Context(), "operator", c.old, next)
		require.NoError(t, err, what)
		require.Equal(t, c.swapped, swapped, what)
		require.WithinDuration(t, time.Now(), e.Clock, time.Hour, "%s: each reply has the server's clock", what)
		e.Clock = time.Time{}
		require.Equal(t, c.want, e, what)
		require.Equal(t, c.sent, sent(), what)
	}
}

func TestWhatARetryCures(t *testing.T) {
	t.Parallel()
	forbidden := `leases.coordination.k8s.io "operator" is forbidden: User "system:serviceaccount:default:x" cannot get resource "leases" in API group "coordination.k8s.io" in the namespace "ns"`
	for reply, curable := range map[string]bool{
		"401 " + status(401, "Unauthorized", "Unauthorized"):                               false,
		"403 " + status(403, forbidden, "Forbidden"):                                       false,
		"404 " + status(404, `namespaces "ns" not found`, "NotFound"):                      false,
		"422 " + status(422, `Lease.coordination.k8s.io "operator" is invalid`, "Invalid"): false,
		"501 Not Implemented": false,
		"200 <html>":          false,
		"429 " + status(429, "too many requests, please try again later", "TooManyRequests"): true,
		"500 " + status(500, "etcdserver: leader changed", "InternalError"):                  true,
		"502 <html>Bad Gateway</html>": true,
		"503 " + status(503, "the server is currently unable to handle the request", "ServiceUnavailable"): true,
		"504 " + status(504, "Timeout: request did not complete within requested timeout", "Timeout"):      true,
	} {
		store, sent := replying(t, reply)
		_, _, err := store.Swap(t.Context(), "operator", "", register.Record{})
		require.ErrorContains(t, err, "k8stoken: ", reply)
		require.Equal(t, curable, isUnreachable(err), "%s: %v", reply, err)
		require.Len(t, sent(), 1, "a Swap is not repeated")
	}
	store, _ := replying(t, "403 "+status(403, forbidden, "Forbidden"))
	_, err := store.Load(t.Context(), "operator")
	require.ErrorContains(t, err, "/apis/coordination.k8s.io/v1/namespaces/ns/leases/operator: 403 Forbidden: "+forbidden)

	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = fmt.Fprint(w, "{")
	}))
	t.Cleanup(cut.Close)
	foreign := httptest.NewUnstartedServer(http.NotFoundHandler())
	quiet := log.New(io.Discard, "", 0) // of the handshakes that fail
	foreign.Config.ErrorLog = quiet
	strict := httptest.NewUnstartedServer(http.NotFoundHandler())
	foreign.StartTLS()
	strict.Config.ErrorLog = quiet
	// With TLS 1.3 the server refuses after the handshake, and may close the connection before
	// the client has read why.
	strict.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12} //nolint:gosec // see above
	strict.StartTLS()
	t.Cleanup(foreign.Close)
	t.Cleanup(strict.Close)
	dead := "http://" + serverproc.Loopback(serverproc.FreePort(t))
	for what, c := range map[string]struct {
		config  k8stoken.Config
		curable bool
	}{
		"a reply that is cut":               {k8stoken.Config{URL: cut.URL, Client: cut.Client()}, true},
		"no server":                         {k8stoken.Config{URL: dead, Client: cut.Client()}, true},
		"no such host":                      {k8stoken.Config{URL: "fencepost.invalid", Client: cut.Client()}, true},
		"a certificate that is not trusted": {k8stoken.Config{URL: foreign.Listener.Addr().String(), Client: cut.Client()}, false},
		"no certificate of the client":      {k8stoken.Config{URL: strict.URL, Client: strict.Client()}, false},
		"a URL with a space":                {k8stoken.Config{URL: "a b"}, false},
		"no file of the token":              {k8stoken.Config{URL: cut.URL, TokenFile: "none", Client: cut.Client()}, false},
	} {
		_, err := k8stoken.New(c.config).Inspect(t.Context(), "operator")
		require.ErrorContains(t, err, "k8stoken: ", what)
		require.Equal(t, c.curable, isUnreachable(err), "%s: %v", what, err)
		if strings.Contains(what, "trusted") {
			require.ErrorContains(t, err, "certificate", what)
		}
	}
}

func isUnreachable(err error) bool { return errors.Is(err, token.ErrUnreachable) }

func TestWatchEvents(t *testing.T) {
	t.Parallel()
	object := strings.Replace(ofElector, "%s", "", 1)
	for events, want := range map[string]string{
		`{"type":"MODIFIED","object":` + object + `}`: "198",
		`{"type":"ADDED","object":` + object + `}`:    "198",
		`{"type":"DELETED","object":` + object + `}`:  "",
	} {
		store, _ := replying(t, "200 "+events)
		e, err := store.Watch(t.Context(), "operator", "7")
		require.NoError(t, err, events)
		require.Equal(t, want, e.Version, events)
		require.Zero(t, e.Clock, "the head of the reply was sent before the event")
	}
	for events, want := range map[string]string{
		`200 {"type":"ERROR","object":` + status(410, "too old resource version: 1 (203)", "Expired") + `}`: "the watch has ended: ERROR: too old resource version: 1 (203)",
		`200 `: "the watch has ended: EOF",
		`410 ` + status(410, "too old resource version", "Expired"): "410 Gone: too old resource version",
	} {
		store, _ := replying(t, events)
		_, err := store.Watch(t.Context(), "operator", "7")
		require.ErrorContains(t, err, want)
	}
}

func TestInCluster(t *testing.T) { // it sets environment variables
	var tokens []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, r.URL.Path+" "+r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	folder := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	fails := func(what string) {
		t.Helper()
		_, err := k8stoken.ConfigFromFolder(folder)
		require.ErrorContains(t, err, "k8stoken: this program runs in no pod with a service account: ")
		require.ErrorContains(t, err, what)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	fails("KUBERNETES_SERVICE_HOST")
	t.Setenv("KUBERNETES_SERVICE_HOST", host)
	t.Setenv("KUBERNETES_SERVICE_PORT", port)
	fails("ca.crt")
	write("ca.crt", "x")
	fails("namespace")
	write("namespace", "billing\n")
	fails("ca.crt has no certificate")
	write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	config, err := k8stoken.ConfigFromFolder(folder)
	require.NoError(t, err)
	t.Cleanup(config.Client.CloseIdleConnections)
	iss := k8stoken.New(config)
	for _, secret := range []string{"first\n", "second"} {
		write("token", secret)
		_, err = iss.Inspect(context.Background(), "a")
		require.NoError(t, err)
	}
	const path = "/apis/coordination.k8s.io/v1/namespaces/billing/leases/a"
	require.Equal(t, []string{path + " Bearer first", path + " Bearer second"}, tokens)
}
