package handover

import (
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/bench/crowd"
	"github.com/fencepost/fencepost/bench/peer"
	"github.com/fencepost/fencepost/bench/wire"
	"github.com/fencepost/fencepost/token/redistoken"
)

// side is one kind of lock, and the lock that each waiter uses.
type side struct {
	name    string
	targets crowd.Targets
	url     string
	sent    wire.Counter
	locks   [most]peer.Lock
	closers []func() error // the last first
}

// What one would print as 1.0 and 2.0 commands: a wait that began before the
// block, or ends after it, is counted in part.
const (
	oneCommand  = 1.05
	twoCommands = 2.05
)

// fair is what our sides have to keep.
func fair(commands float64) crowd.Targets {
	return crowd.Targets{HandOver: 1.5, Wait: 1.3, Sent: commands, Fairness: 0.99}
}

// opened are those that are compared, in their order.
var opened = []func(*side) error{
	func(s *side) error {
		s.name, s.targets = "one process", fair(oneCommand)
		return s.together(s.ours)
	},
	func(s *side) error {
		s.name, s.targets = "processes", fair(twoCommands)
		for i := range s.locks {
			client, err := s.client()
			if err != nil {
				return err
			}
			s.locks[i] = s.ours(client)
		}
		return nil
	},
	func(s *side) error {
		s.name = "redislock"
		return s.together(func(client *redis.Client) peer.Lock { return peer.Redislock(client) })
	},
	func(s *side) error {
		s.name = "redsync"
		return s.together(func(client *redis.Client) peer.Lock { return peer.Redsync(client) })
	},
	func(s *side) error {
		s.name = "rueidislock, one key"
		for i := range s.locks {
			lock, closer, err := peer.Rueidislock(s.url, 1, &s.sent)
			if err != nil {
				return err
			}
			s.locks[i], s.closers = lock, append(s.closers, func() error { closer(); return nil })
		}
		return nil
	},
}

// ours is one of ours, with an issuer of its own.
func (s *side) ours(client *redis.Client) peer.Lock {
	iss := &redistoken.Issuer{Client: client}
	s.closers = append(s.closers, iss.Close)
	return peer.Fencepost(iss)
}

// together has all waiters use one lock, with one client.
func (s *side) together(lock func(*redis.Client) peer.Lock) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	one := lock(client)
	for i := range s.locks {
		s.locks[i] = one
	}
	return nil
}

func (s *side) client() (*redis.Client, error) {
	client, err := s.sent.Redis(s.url)
	if err == nil {
		s.closers = append(s.closers, client.Close)
	}
	return client, err
}

func (s *side) close() {
	for _, closer := range slices.Backward(s.closers) {
		_ = closer()
	}
}
