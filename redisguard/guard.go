package redisguard

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// A Guard admits tokens in the scripts that write. Client is required. A Guard is cheap
// and safe for concurrent use; its fields must not change after first use. Set, HSet,
// TxPipelined, Eval and Once take the resource as an argument and the token from the
// context. If the context has no token for it, they return the error of
// [token.FromContext], and send nothing.
type Guard struct {
	// Client connects to the server of the resource: see the package documentation for
	// which servers. The Guard does not close it.
	Client redis.UniversalClient
	// MarkKey returns the key of a resource's mark. It must return different keys for
	// different resources, and must be the same function in all programs. Its keys must
	// not begin like the application's own. In a Cluster, the mark's key must hash to the
	// slot of the keys that are written. Nil means [MarkKey].
	MarkKey func(resource string) string
	// Retention is how long [Guard.Once] records a unit. Exactly-once ends with it. Zero
	// means [guard.DefaultRetention]. If it is negative, Once returns an error.
	Retention time.Duration
	// DangerouslyReportOnly compares every token, but refuses none: a refusal is reported
	// to Hooks, and the write is made without a guard. No mark is lowered. Other errors
	// are returned. The zero value refuses.
	DangerouslyReportOnly bool
	// Hooks are called for refusals. The zero value calls nothing.
	Hooks guard.Hooks
}

// MarkKey returns the default key of a resource's mark:
//
//	fencepost:mark:{<resource>}
//
// In a Cluster the mark of account/42 has the slot of every key with the hash tag
// {account/42}. The tag ends at the first closing brace: for the resource a}b it is a. A
// resource that begins with a closing brace has no tag, and in a Cluster needs its own
// [Guard.MarkKey].
func MarkKey(resource string) string { return "fencepost:mark:{" + resource + "}" }

// markKey returns the key of the mark, or an error if the Client is not supported.
func (g *Guard) markKey(resource string) (string, error) {
	switch g.Client.(type) {
	case nil:
		return "", errors.New("redisguard: Guard has no Client")
	case *redis.Ring:
		return "", errors.New("redisguard: a Ring moves keys to other servers, which have no marks")
	case interface{ IsBlocking() bool }: // an AutoPipeliner, a type that the oldest go-redis lacks
		return "", errors.New("redisguard: an AutoPipeliner sends again by itself: give the client below it")
	}
	if g.MarkKey != nil {
		return g.MarkKey(resource), nil
	}
	return MarkKey(resource), nil
}

// text returns tok in the form of a mark, or "" for the zero Token.
func text(tok token.Token) string {
	if tok == (token.Token{}) {
		return ""
	}
	return strconv.FormatInt(tok.Number, 10) + " " + tok.Holder
}

var _ guard.Identified = (*Guard)(nil)

// identity identifies where the marks are kept.
type identity struct {
	servers any // the configured addresses, or the Client if it has none
	db      int
	key     string
}

// Identity implements [guard.Identified]. Two Guards have the same identity if their
// clients are configured with the same addresses and database, and their MarkKey returns
// the same key for "identity/0". Addresses are compared as strings. The addresses of
// failover clients (Sentinel) are not accessible: those with the same database have the
// same identity.
func (g *Guard) Identity() any {
	id := identity{servers: g.Client, db: g.database(), key: MarkKey("identity/0")}
	if g.MarkKey != nil {
		id.key = g.MarkKey("identity/0")
	}
	switch client := g.Client.(type) {
	case *redis.Client:
		id.servers = client.Options().Addr
	case *redis.ClusterClient:
		id.servers = strings.Join(slices.Sorted(slices.Values(client.Options().Addrs)), ",")
	}
	return id
}

// database returns the database of the Client's connections, or 0 if it is not known.
func (g *Guard) database() int {
	if client, has := g.Client.(interface{ Options() *redis.Options }); has {
		return client.Options().DB
	}
	return 0
}
