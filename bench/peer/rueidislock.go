package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/fencepost/fencepost/bench/wire"
)

// Rueidislock is github.com/redis/rueidis/rueidislock with so many keys for a
// resource, of which a majority counts: three are its default. It has a client of
// its own, whose connections are counted, and which is to be closed.
func Rueidislock(url string, keys int32, sent *wire.Counter) (l Lock, closeClient func(), err error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return Lock{}, nil, err
	}
	option.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return sent.Dial(ctx, "tcp", addr)
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: option, KeyValidity: TTL, KeyMajority: (keys + 1) / 2,
	})
	if err != nil {
		return Lock{}, nil, err
	}
	return Lock{
		Wait: func(ctx context.Context, resource string) (Unlock, error) {
			_, cancel, err := locker.WithContext(ctx, resource)
			return unlockRueidis(cancel), err
		},
		Try: func(ctx context.Context, resource string) (Unlock, error) {
			_, cancel, err := locker.TryWithContext(ctx, resource)
			if errors.Is(err, rueidislock.ErrNotLocked) {
				err = errors.Join(ErrHeld, err)
			}
			return unlockRueidis(cancel), err
		},
	}, locker.Close, nil
}

// unlockRueidis has no errors to tell: there are none.
func unlockRueidis(cancel context.CancelFunc) Unlock {
	return func(context.Context) error { cancel(); return nil }
}
