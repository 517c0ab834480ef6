package acknowledged_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

var issuers = map[string]func(*site, order) issuer{
	"redistoken": func(s *site, o order) issuer { return &redistoken.Issuer{Client: s.redis, Prefix: o.Prefix} },
	"pgtoken":    func(s *site, o order) issuer { return &pgtoken.Issuer{DB: s.pool, Schema: o.Schema} },
}

type issuer interface {
	token.Issuer
	token.Waiter
	token.Raiser
	io.Closer
}

// drowsy is an issuer whose holders can sleep: nobody renews for them then, and
// nobody tells them.
type drowsy struct {
	issuer
	asleep sync.Map // of holders
}

func (d *drowsy) Unwrap() token.Issuer { return d.issuer }

var errAsleep = errors.New("acknowledged: nobody renews for who sleeps")

// Renew is nothing for who sleeps.
func (d *drowsy) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	if _, asleep := d.asleep.Load(tok.Holder); asleep {
		return time.Time{}, errAsleep
	}
	return d.issuer.Renew(ctx, tok, ttl)
}

// sleep returns when the lock of tok's holder has run out, and others have had
// the time to come.
func (d *drowsy) sleep(tok token.Token, longer time.Duration) {
	d.asleep.Store(tok.Holder, true)
	defer d.asleep.Delete(tok.Holder)
	time.Sleep(ttl + ttl/2 + longer)
}
