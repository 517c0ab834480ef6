package natstoken_test

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fencepost/fencepost/contrib/natstoken"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
)

// What the package comment shows, without its checks of errors, compiles.
var _ = func(ctx context.Context, url string, fence *guard.Memory) (*lock.Locker, error) { //nolint:ineffassign,staticcheck // see above
	conn, err := nats.Connect(url, nats.MaxReconnects(-1)) // go on, however long the outage
	js, err := jetstream.New(conn)
	bucket, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "fencepost", Replicas: 3})
	locks := &lock.Locker{Issuer: natstoken.New(js, bucket), TTL: 30 * time.Second, Claim: fence.Admit}
	return locks, err
}
