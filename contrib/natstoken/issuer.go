package natstoken

import (
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fencepost/fencepost/internal/register"
)

// Issuer is a [token.Issuer] on NATS, and a [token.QueueIssuer], [token.BatchRenewer],
// [token.Recoverer] and [token.Inspector]. It is safe for concurrent use. Its waiters share
// their watches, so the callers of a process should share it.
//
// An error is [token.ErrUnreachable] if the connection is being restored, at once; if no
// server has answered for five seconds; or if the bucket has no leader. A closed connection, a
// bucket that does not exist and a refused right are other errors. NATS does not answer a
// request for which the user has no right, so that error takes five seconds. Every method
// returns when its ctx ends, with [context.Cause]. Its request may still take effect after
// that.
type Issuer struct{ issuer }

type issuer = register.Interface

// New returns an issuer over the bucket, which no other program writes to. It sends nothing
// yet. By default, a connection is closed after two minutes without a server;
// nats.MaxReconnects(-1) keeps it.
func New(js jetstream.JetStream, bucket jetstream.KeyValue) *Issuer {
	return &Issuer{&register.Issuer{Store: &store{js: js, bucket: bucket}, LoadFirst: true}}
}
