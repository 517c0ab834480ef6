package consultoken

import (
	"cmp"
	"net/http"

	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/internal/register/httpjson"
)

// Config has the settings of an [Issuer].
type Config struct {
	// URL is that of an agent, such as "https://127.0.0.1:8501". Without a scheme, it means
	// http. Empty means "http://127.0.0.1:8500".
	URL string
	// Token is the secret of an ACL token. If it is empty, requests have none, and the agent
	// uses its default token.
	Token string
	// Prefix is the prefix of all keys. Programs that share locks use the same prefix, and
	// no other key begins with it. Empty means "fencepost/".
	Prefix string
	// Client sends all requests. Its Transport has the settings of TLS. Its Timeout ends
	// waits too, and should be zero. Nil means a client without settings of TLS.
	Client *http.Client
}

// Issuer is a [token.Issuer] on Consul, and a [token.QueueIssuer], [token.BatchRenewer],
// [token.Recoverer] and [token.Inspector]. It is safe for concurrent use. Its waiters share
// their blocking queries, so the callers of a process should share it.
//
// An error is [token.ErrUnreachable] if the agent has not answered, or there is no leader,
// or a limit of requests is reached. An unknown token, a refused right and a certificate
// that is not trusted are other errors. Every method returns when its ctx ends, with
// [context.Cause]. Its request may still take effect after that.
type Issuer struct{ issuer }

type issuer = register.Interface

// New returns an issuer. It sends nothing yet.
func New(c Config) *Issuer {
	c.URL = httpjson.URL("http", cmp.Or(c.URL, "127.0.0.1:8500"))
	c.Prefix = cmp.Or(c.Prefix, "fencepost/")
	if c.Client == nil {
		c.Client = httpjson.NewClient(nil)
	}
	return &Issuer{&register.Issuer{Store: &store{c}, LoadFirst: true}}
}
