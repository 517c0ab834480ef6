package k8stoken

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/internal/register/httpjson"
)

// Config has the settings of an [Issuer].
type Config struct {
	// URL is that of the API server, such as "https://10.96.0.1:443", as in the field Host of
	// client-go's rest.Config. Without a scheme, it means https. Required.
	URL string
	// Namespace is that of the Leases. Empty means "default".
	Namespace string
	// TokenFile has the bearer token of each request. It is read for each, since the kubelet
	// replaces it before it expires. If it is empty, Client authenticates.
	TokenFile string
	// Client sends all requests. Its Transport has the settings of TLS. Its Timeout ends
	// waits too, and should be zero. Nil means a client without settings of TLS.
	Client *http.Client
}

// InCluster returns the Config of a pod, from the files of its service account and the
// environment variables KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT. Namespace is
// the pod's own. The error is not nil if a variable, ca.crt or namespace is missing. ca.crt is
// read once: if the cluster's certificate is replaced, the pod must restart.
func InCluster() (Config, error) { return inCluster("/var/run/secrets/kubernetes.io/serviceaccount") }

func inCluster(folder string) (Config, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	ca, err := os.ReadFile(folder + "/ca.crt")
	namespace, err2 := os.ReadFile(folder + "/namespace")
	roots := x509.NewCertPool()
	if err = errors.Join(err, err2); host == "" || port == "" {
		err = errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
	} else if err == nil && !roots.AppendCertsFromPEM(ca) {
		err = errors.New(folder + "/ca.crt has no certificate")
	}
	if err != nil {
		return Config{}, fmt.Errorf("k8stoken: this program runs in no pod with a service account: %w", err)
	}
	return Config{
		URL:       "https://" + net.JoinHostPort(host, port),
		Namespace: strings.TrimSpace(string(namespace)),
		TokenFile: folder + "/token",
		Client:    httpjson.NewClient(&tls.Config{RootCAs: roots}),
	}, nil
}

// Issuer is a [token.Issuer] on Kubernetes, and a [token.QueueIssuer],
// [token.BatchRenewer], [token.Recoverer] and [token.Inspector]. It is safe for concurrent
// use. Its waiters share their watches, so the callers of a process should share it.
//
// An error is [token.ErrUnreachable] if the API server has not answered, or has no etcd or
// no time. A token that has expired, a refused right, a missing namespace and a certificate
// that is not trusted are other errors. Every method returns when its ctx ends, with
// [context.Cause]. Its request may still take effect after that.
type Issuer struct{ issuer }

type issuer = register.Interface

// New returns an issuer. It sends nothing yet.
func New(c Config) *Issuer {
	c.URL = httpjson.URL("https", c.URL) + "/apis/coordination.k8s.io/v1/namespaces/" + cmp.Or(c.Namespace, "default") + "/leases"
	if c.Client == nil {
		c.Client = httpjson.NewClient(nil)
	}
	return &Issuer{&register.Issuer{Store: &store{c}, LoadFirst: true}}
}
