package schedulers

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
)

// Consumer applies each message of a stream once, in order, on the instance that leads. The
// offset is a row of the database. NATS keeps none, and no message is acknowledged.
type Consumer struct {
	Candidate *lock.Candidate
	Stream    jetstream.Stream
	Pool      *pgxpool.Pool
	Fence     *sqlguard.Guard // over Pool
	Apply     func(ctx context.Context, tx pgx.Tx, msg jetstream.Msg) error
}

// Run consumes whenever this instance leads, until ctx ends or a message cannot be applied.
func (c *Consumer) Run(ctx context.Context) error { return c.Candidate.Run(ctx, c.consume) }

func (c *Consumer) consume(ctx context.Context) error {
	name, seq := c.Stream.CachedInfo().Config.Name, uint64(0)
	if err := c.Pool.QueryRow(ctx, "SELECT seq FROM offsets WHERE stream = $1", name).Scan(&seq); err != nil {
		return err
	}
	consumer, err := c.Stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq + 1,
	})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		at, err := msg.Metadata()
		if err != nil {
			return err
		}
		if err := c.Fence.Update(ctx, c.Candidate.Resource, func(tx pgx.Tx) error {
			if err := c.Apply(ctx, tx, msg); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE offsets SET seq = $2 WHERE stream = $1", name, at.Sequence.Stream)
			return err
		}); err != nil {
			return err
		}
	}
}
