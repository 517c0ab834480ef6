package etcdguard

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// A Guard admits tokens in the transactions that write. Client is required. A Guard is
// cheap and safe for concurrent use; its fields must not change after first use.
type Guard struct {
	// Client connects to the cluster of the resource. The Guard does not close it. A
	// Client whose KV was replaced, as by package namespace, is refused: the Guard would
	// write past the wrapper.
	Client *clientv3.Client
	// Prefix begins the keys of the marks: Prefix and the resource are the key. It must be
	// the same in all programs, and the application's own keys must not begin like it. ""
	// means [DefaultPrefix].
	Prefix string
	// DangerouslyReportOnly compares every token, but refuses none: a refusal is reported
	// to Hooks, and the write is made without a guard. No mark is lowered. Other errors
	// are returned. The zero value refuses.
	DangerouslyReportOnly bool
	// Hooks are called for refusals. The zero value calls nothing.
	Hooks guard.Hooks
}

// DefaultPrefix begins the keys of the marks if a Guard has no Prefix.
const DefaultPrefix = "fencepost/mark/"

// Admit implements [guard.Store]. It is a claim, for lock.Locker: it raises the mark
// without a write. After it has returned nil, no older token writes through a Guard of
// this cluster. Writes to other systems after Admit are not fenced.
//
// Admit returns a [*guard.StaleError] if the mark refuses tok, and [token.ErrInvalid] if
// tok is incomplete. If ctx ends, it returns the cause. After any other error than a
// refusal, the mark may be raised.
func (g *Guard) Admit(ctx context.Context, tok token.Token) error {
	err := tok.Validate()
	if err == nil {
		_, err = (&txn{Guard: g, verb: "admit", resource: tok.Resource, ctx: ctx, tok: tok}).do()
	}
	return guard.WithCause(ctx, g.Hooks.Outcome(ctx, err, g.DangerouslyReportOnly))
}

// check returns an error if the Client is not supported.
func (g *Guard) check() error {
	if g.Client == nil {
		return errors.New("the Guard has no Client")
	}
	if reflect.TypeOf(g.Client.KV) != reflect.TypeOf(clientv3.NewKVFromKVClient(nil, nil)) {
		return errors.New("the Client's KV is wrapped: give a Client of its own, and whole keys")
	}
	return nil
}

func (g *Guard) prefix() string { return cmp.Or(g.Prefix, DefaultPrefix) }

var _ guard.Identified = (*Guard)(nil)

// identity is where the marks are.
type identity struct{ endpoints, prefix string }

// Identity implements [guard.Identified]. Two Guards have the same identity if their
// clients have the same endpoints, compared as strings in any order, and their marks the
// same prefix.
func (g *Guard) Identity() any {
	return identity{strings.Join(slices.Sorted(slices.Values(g.Client.Endpoints())), ","), g.prefix()}
}
