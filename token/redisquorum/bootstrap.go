package redisquorum

import (
	"context"
	"fmt"
)

// Bootstrap makes a quorum of the nodes, once, before any program uses it. It
// is the word of an operator that no lease of this quorum is alive: servers that
// have all forgotten look like servers that are new. So it is not for the start
// of every program.
//
// All nodes must answer. Where a majority of them are members it refuses, and
// changes nothing: the others recover by themselves. Where some are members, or
// have been, or where programs have met them blank, it is what brings back a
// quorum that has lost its majority: then it refuses until MaxTTL has passed
// since that was first noted, by a program or by Bootstrap itself, and the error
// says how long that is. Numbers go on from the greatest that any node still
// knows, or from the clock.
//
// Where it fails half-way, or two run at once, it is to be called again.
//
// Two nodes that are databases of one server are found out, and refused.
func (i *Issuer) Bootstrap(ctx context.Context) error {
	q, err := i.quorum()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = q.bootstrap(ctx, i.Durable)
	}
	if err != nil {
		return fmt.Errorf("redisquorum: bootstrap: %w", err)
	}
	return nil
}
