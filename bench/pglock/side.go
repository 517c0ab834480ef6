package pglock

import (
	"context"

	"github.com/fencepost/fencepost/bench/peer"
	"github.com/fencepost/fencepost/bench/wire"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// waiters is how many want one lock.
const waiters = 8

// side is one kind of lock, and the lock that each waiter uses.
type side struct {
	name  string
	sent  wire.Counter
	locks [waiters]peer.Lock
}

// openSides has the issuers that many wait at. Each has a pool of its own, with a
// connection more for those who wait.
func (g *Group) openSides(ctx context.Context, url string) error {
	together, apart := &side{name: "a row, one process"}, &side{name: "a row, processes"}
	advisory := &side{name: "advisory"}
	one, err := g.row(ctx, url, together, waiters+1)
	if err != nil {
		return err
	}
	pool, err := g.connect(ctx, url, &advisory.sent, 2*waiters)
	if err != nil {
		return err
	}
	sessions := &pgtoken.Advisory{Pool: pool}
	g.closers = append(g.closers, sessions.Close)
	session := peer.Fencepost(sessions)
	for i := range waiters {
		together.locks[i], advisory.locks[i] = one, session
		if apart.locks[i], err = g.row(ctx, url, apart, 3); err != nil {
			return err
		}
	}
	g.sides = []*side{together, apart, advisory}
	return nil
}

// row is a lock with an issuer and a pool of its own.
func (g *Group) row(ctx context.Context, url string, s *side, connections int32) (peer.Lock, error) {
	pool, err := g.connect(ctx, url, &s.sent, connections)
	if err != nil {
		return peer.Lock{}, err
	}
	iss := &pgtoken.Issuer{DB: pool}
	g.closers = append(g.closers, iss.Close)
	return peer.Fencepost(iss), nil
}
