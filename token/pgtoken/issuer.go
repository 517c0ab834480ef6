package pgtoken

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/token"
)

// Issuer is a [token.Issuer] on PostgreSQL, and a [token.Waiter],
// [token.BatchRenewer] and [token.Raiser]. It is as safe for concurrent use as
// its DB; its fields must not change after first use, and it must not be copied.
//
// Where ctx ends a call, the error is [context.Cause] and the connection is
// lost; the call may still have taken effect on the server.
type Issuer struct {
	// DB is required. It is not closed by the Issuer.
	DB DB
	// Schema is where the migrations put their functions; programs that share
	// locks share it. It is quoted: any name will do. Empty means "fencepost".
	Schema string
	// Claims raises the mark of each new token in the statement that grants it,
	// for guards whose marks are in this schema too: that of package sqlguard.
	// It costs a few per cent of an acquisition, where a claim of its own is a
	// round trip and an fsync. While somebody else is admitted for the resource,
	// a zombie in an open transaction say, it would have to wait: then Claimed is
	// false in the grant, and a Locker claims by itself.
	Claims bool
	// Poll, above zero, has waiters ask again this often, and sends no
	// notifications, which take one connection of the pool while somebody waits.
	// Zero is for those, but where none can arrive: behind a pooler, which the
	// Issuer finds out by itself, on a DB that is a single connection, and after
	// Close, waiters ask every 50 ms.
	Poll time.Duration

	look   sync.Once         // at the mode of DB
	texts  map[string]string // the statements, in the schema
	begins atomic.Bool       // BEGIN and COMMIT are sent too
	line   line
}

var (
	_ token.Issuer       = (*Issuer)(nil)
	_ token.Waiter       = (*Issuer)(nil)
	_ token.BatchRenewer = (*Issuer)(nil)
	_ token.Raiser       = (*Issuer)(nil)
)

// Acquire implements [token.Issuer]. Of ttl only whole microseconds count, and
// at least one is needed. Asked again by the holder who has the resource it
// returns the same number, or a greater one after a Raise. It is refused while
// others wait, even where the resource is free.
func (i *Issuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	if err := checkAll(resource, holder, ttl); err != nil {
		return token.Grant{}, err
	}
	sent := time.Now()
	a, err := i.ask(ctx, askSQL, resource, holder, ttl.Microseconds(), i.Claims)
	switch {
	case err != nil:
		return token.Grant{}, fmt.Errorf("pgtoken: acquire %s: %w", resource, err)
	case !a.granted():
		return token.Grant{}, a.held(resource)
	}
	return a.grant(resource, holder, sent, ttl), nil
}

func (i *Issuer) ask(ctx context.Context, sql string, args ...any) (reply, error) {
	var text string
	if err := i.single(ctx, sql, args, &text); err != nil {
		return reply{}, err
	}
	return parseReply(text)
}

// Renew implements [token.Issuer]. Of ttl only whole microseconds count, and
// at least one is needed.
func (i *Issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	if err := check(ttl); err != nil {
		return time.Time{}, err
	}
	var renewed bool
	var waited microseconds
	sent := time.Now()
	err := i.single(ctx, renewSQL, []any{tok.Resource, tok.Holder, ttl.Microseconds()}, &renewed, &waited)
	if err == nil && !renewed {
		err = token.ErrLost
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("pgtoken: renew %s: %w", tok, err)
	}
	return until(sent, waited, ttl), nil
}

// Release implements [token.Issuer]. Where others wait, the resource passes to
// the one who has waited longest, in the same step.
func (i *Issuer) Release(ctx context.Context, tok token.Token) error {
	var released bool
	err := i.single(ctx, releaseSQL, []any{tok.Resource, tok.Holder}, &released)
	if err == nil && !released {
		err = token.ErrLost
	}
	if err != nil {
		return fmt.Errorf("pgtoken: release %s: %w", tok, err)
	}
	return nil
}

func checkAll(resource, holder string, ttl time.Duration) error {
	if err := (token.Token{Resource: resource, Number: 1, Holder: holder}).Check(); err != nil {
		return err
	}
	return check(ttl)
}

func check(ttl time.Duration) error {
	if ttl < time.Microsecond {
		return fmt.Errorf("pgtoken: ttl %s is less than 1µs", ttl)
	}
	return nil
}
