package redisquorum

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/token"
)

// Issuer is a [token.Issuer] on a quorum of Redis servers. It is safe for
// concurrent use; its fields must not change after first use. It must not be
// copied.
//
// Every method returns when its ctx does, with [context.Cause]; it may still
// take effect on servers after that. A ctx that has ended already sends nothing.
// The error is [ErrNoMajority] where too few nodes could be asked.
type Issuer struct {
	// Nodes are the servers, three or more, each under the name that all
	// programs know it by: printable ASCII without spaces and commas. A name is
	// a place in the quorum, whatever the address; two servers must never have
	// one name at a time. An odd number is best: four outlive no more of them
	// than three do. The clients are not closed by the Issuer.
	Nodes map[string]redis.UniversalClient
	// Prefix is what all keys begin with, before ":quorum:". Empty means
	// "fencepost".
	Prefix string
	// MaxTTL is the longest ttl that can be asked for, in whole milliseconds,
	// and thereby how long a node that has lost its memory stays out. It is
	// part of the quorum: all programs have the same. Zero means one minute;
	// less than 10 ms is an error.
	MaxTTL time.Duration
	// Durable says, at Bootstrap and never again, that every node keeps each
	// write before it answers, whatever becomes of its process and machine:
	// appendonly yes, appendfsync always, no replica that takes over. A restart
	// of such a node is then no loss. Where it is false each restart is one,
	// whatever the node has on disk.
	Durable bool

	once sync.Once
	q    *quorum
	err  error
}

var (
	_ token.Issuer       = (*Issuer)(nil)
	_ token.Raiser       = (*Issuer)(nil)
	_ token.BatchRenewer = (*Issuer)(nil)
)

// enter is how every method begins.
func (i *Issuer) enter(ctx context.Context) (*quorum, *charter, error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	q, err := i.quorum()
	if err != nil {
		return nil, nil, err
	}
	c, err := q.charter(ctx)
	return q, c, err
}

func (i *Issuer) quorum() (*quorum, error) {
	i.once.Do(func() { i.q, i.err = newQuorum(i) })
	return i.q, i.err
}
