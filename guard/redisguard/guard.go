package redisguard

import (
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// Guard admits tokens in the scripts that write. Only Client is required. A
// Guard is cheap and safe for concurrent use; its fields must not change after
// first use. The token comes from the context, the resource from the caller:
// see [token.FromContext] for the errors of a context that has none, which reach
// nothing.
type Guard struct {
	// Client is of the server that has the resource: see the package's comment
	// for which. It is not closed by the Guard.
	Client redis.UniversalClient
	// MarkKey names the key of a resource's mark. Two resources must never have
	// the same, all programs must compute the same, and the name must begin with
	// nothing that the application's own keys begin with. In a Cluster it must
	// hash to the slot of the keys that are written. Nil means [MarkKey].
	MarkKey func(resource string) string
	// DangerouslyObserve judges every token and refuses none. What would have
	// been refused goes to Observer, and the write is made unguarded. No mark is
	// lowered. Errors that are no refusals remain.
	DangerouslyObserve bool
	// Observer is told of refusals.
	Observer guard.Observer
}

var _ guard.Store = (*Guard)(nil)

// MarkKey is where a resource's mark is kept unless the Guard says otherwise:
//
//	fencepost:mark:{<resource>}
//
// In a Cluster the mark of account/42 has the slot of every key with the hash
// tag {account/42}. The tag ends at the first closing brace: of a}b it is a. A
// resource that begins with one has no tag, and needs a name of its own there.
func MarkKey(resource string) string { return "fencepost:mark:{" + resource + "}" }

// markKey also says whether the client will do.
func (g *Guard) markKey(resource string) (string, error) {
	switch g.Client.(type) {
	case nil:
		return "", errors.New("redisguard: Guard has no Client")
	case *redis.Ring:
		return "", errors.New("redisguard: a Ring moves keys to other servers, which have no marks")
	case interface{ IsBlocking() bool }: // an AutoPipeliner, which the oldest go-redis does not have
		return "", errors.New("redisguard: an AutoPipeliner sends again by itself: give the client below it")
	}
	if g.MarkKey != nil {
		return g.MarkKey(resource), nil
	}
	return MarkKey(resource), nil
}

// text returns tok in the form of a mark, for the scripts.
func text(tok token.Token) string {
	if tok == (token.Token{}) {
		return ""
	}
	return strconv.FormatInt(tok.Number, 10) + " " + tok.Holder
}
