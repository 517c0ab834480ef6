package zktoken

import (
	"cmp"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fencepost/fencepost/internal/register"
)

// Config has the settings of an [Issuer].
type Config struct {
	// Conn is the connection. Required.
	Conn *zk.Conn
	// Root is the path of the znode above the records. It is created if it does not exist.
	// Programs that share locks use the same one, which no other program writes below. Empty
	// means "/fencepost".
	Root string
	// ACL is that of the znodes that are created. It must let the connection read, write and
	// create. Nil lets everyone do everything; zk.AuthACL(zk.PermAll) is for a connection
	// with AddAuth.
	ACL []zk.ACL
}

// Issuer is a [token.Issuer] on ZooKeeper, and a [token.QueueIssuer], [token.BatchRenewer],
// [token.Recoverer] and [token.Inspector]. It is safe for concurrent use. Its waiters share
// their watches, so the callers of a process should share it.
//
// An error is [token.ErrUnreachable] if the connection is lost, no server has answered for
// five seconds, or the session has expired: the client begins a new one. A refused right, as
// of a wrong password, is another error. Every method returns when its ctx ends, with
// [context.Cause]. Its request may still take effect after that.
type Issuer struct{ issuer }

type issuer = register.Interface

// New returns an issuer. It sends nothing yet.
func New(c Config) *Issuer {
	c.Root = cmp.Or(strings.TrimSuffix(c.Root, "/"), "/fencepost")
	if c.ACL == nil {
		c.ACL = zk.WorldACL(zk.PermAll)
	}
	return &Issuer{&register.Issuer{Store: &store{c}, LoadFirst: true}}
}
