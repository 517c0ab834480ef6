package etcdtoken

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/internal/register/httpjson"
)

// Config has the settings of an [Issuer].
type Config struct {
	// Endpoints are the client URLs of members of one cluster, such as
	// "https://10.0.0.1:2379". Without a scheme, they mean http. One at a time is used,
	// until it does not answer. Required.
	Endpoints []string
	// User and Password are those of etcd's authentication. If User is empty, requests have
	// no token of a user.
	User, Password string
	// Prefix is the prefix of all keys. Programs that share locks use the same prefix, and
	// no other key begins with it. Empty means "fencepost/".
	Prefix string
	// Client sends all requests. Its Transport has the settings of TLS. Its Timeout ends
	// waits too, and should be zero. Nil means a client without settings of TLS.
	Client *http.Client
}

// Issuer is a [token.Issuer] on etcd, and a [token.QueueIssuer], [token.BatchRenewer],
// [token.Recoverer] and [token.Inspector]. It is safe for concurrent use. Its waiters share
// their watches, so the callers of a process should share it.
//
// An error is [token.ErrUnreachable] if no endpoint has answered, or the member that has
// answered has no leader, no room or no time. A wrong password, a refused right and a
// certificate that is not trusted are other errors; with TLS 1.3, a server that refuses the
// client's certificate may look like one that is down. Every method returns when its ctx ends,
// with [context.Cause]. Its request may still take effect after that.
type Issuer struct{ issuer }

type issuer = register.Interface

// New returns an issuer. It sends nothing yet.
func New(c Config) *Issuer {
	c.Endpoints = slices.Clone(c.Endpoints)
	for i, endpoint := range c.Endpoints {
		c.Endpoints[i] = httpjson.URL("http", endpoint)
	}
	c.Prefix = cmp.Or(c.Prefix, "fencepost/")
	if c.Client == nil {
		c.Client = httpjson.NewClient(nil)
	}
	return &Issuer{&register.Issuer{Store: &store{Config: c, turn: make(chan struct{}, 1), idle: time.Second}}}
}
