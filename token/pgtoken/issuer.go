package pgtoken

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/token"
)

// Issuer is a [token.Issuer] on PostgreSQL, and a [token.QueueIssuer],
// [token.BatchRenewer], [token.Recoverer] and [token.Inspector]. It is as safe for
// concurrent use as its DB. Its fields must not change after first use. It must not be
// copied.
//
// If ctx ends during a call, the call returns [context.Cause] and its connection is
// closed. The call may still have taken effect on the server.
type Issuer struct {
	// DB is required. The Issuer does not close it. If it is a full *pgxpool.Pool, renewals
	// use a connection outside of it, and all other calls wait for one of its connections.
	DB DB
	// Schema is the schema with the functions of package migrations. Programs that share
	// locks use the same schema. It is quoted, so any name is valid. Empty means
	// "fencepost".
	Schema string
	// Claims raises the mark of each new token in the statement that grants it, for
	// guards of package sqlguard whose marks are in this schema. It makes an acquisition
	// a few per cent slower, and saves the round trip and the fsync of a separate claim.
	// If another transaction for the resource is in progress, such as that of a paused
	// holder, raising the mark would have to wait: the grant then raises no mark.
	//
	// [github.com/fencepost/fencepost/lock.Locker.Claim] is called whether Claims is set
	// or not. If it is the Admit of a sqlguard.Guard with the same pool as its DB and the
	// same Schema, Admit finds the mark raised and sends nothing. A Table's Claim, a guard
	// with another pool or schema, and a guard of another kind have marks of their own,
	// and raise them as usual. False means that grants raise no marks.
	Claims bool
	// Poll is the interval at which waiters poll. A value above zero turns notifications
	// off; they take one connection of the pool while there are waiters. Zero means that
	// waiters are notified if possible, and poll every 50 ms if not: behind a pooler
	// (which the Issuer detects), if the pool's connections have an OnNotification of their
	// own, if DB is a single connection, and after Close.
	Poll time.Duration

	readMode sync.Once   // reads DB's query mode
	begins   atomic.Bool // whether BEGIN and COMMIT must be sent too
	queue    waitQueue
	spare    spare
}

var (
	_ token.Issuer       = (*Issuer)(nil)
	_ token.QueueIssuer  = (*Issuer)(nil)
	_ token.BatchRenewer = (*Issuer)(nil)
	_ token.Recoverer    = (*Issuer)(nil)
	_ token.Inspector    = (*Issuer)(nil)
)

// Acquire implements [token.Issuer]. The ttl is rounded down to whole microseconds; less
// than one is an error. If holder has the resource already, Acquire returns the same
// number, or a greater one after a Recover. While there are waiters, it returns a
// [*token.HeldError], even if the resource is free.
func (i *Issuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	if err := checkToken(resource, holder, ttl); err != nil {
		return token.Grant{}, err
	}
	sent := time.Now()
	r, err := i.request(ctx, acquireSQL, resource, holder, ttl.Microseconds(), i.Claims)
	switch {
	case err != nil:
		return token.Grant{}, fmt.Errorf("pgtoken: acquire %s: %w", resource, err)
	case !r.granted():
		return token.Grant{}, r.held(resource)
	}
	return r.grant(i, resource, holder, sent, ttl), nil
}

// request runs a statement that acquires, and parses its reply.
func (i *Issuer) request(ctx context.Context, sql string, args ...any) (reply, error) {
	var text string
	if err := i.run(ctx, sql, args, &text); err != nil {
		return reply{}, err
	}
	return parseReply(text)
}

// Release implements [token.Issuer]. If there are waiters, the same statement hands the
// resource to the first of them. Release returns [token.ErrLost] if the token's holder
// does not have the resource.
func (i *Issuer) Release(ctx context.Context, tok token.Token) error {
	var released bool
	err := i.run(ctx, releaseSQL, []any{tok.Resource, tok.Holder}, &released)
	if err == nil && !released {
		err = token.ErrLost
	}
	if err != nil {
		return fmt.Errorf("pgtoken: release %s: %w", tok, err)
	}
	return nil
}

// Recover implements [token.Recoverer]. It durably raises the row of this resource only.
// It does not change the sequence: setting it to a value that was read before would
// repeat the numbers minted in the meantime. It returns [token.ErrLost] if the row's
// number is number or greater, and [token.ErrTooFarAhead] if number is more than
// [token.MaxAhead] above the server's clock.
func (i *Issuer) Recover(ctx context.Context, resource string, number int64) error {
	if err := (token.Token{Resource: resource, Number: number, Holder: "-"}).Validate(); err != nil {
		return err
	}
	var result string
	err := i.run(ctx, recoverSQL, []any{resource, number}, &result)
	switch {
	case err != nil:
	case result == "remembered":
		err = token.ErrLost
	case result == "too_far_ahead":
		err = token.ErrTooFarAhead
	}
	if err != nil {
		return fmt.Errorf("pgtoken: recover %s to %d: %w", resource, number, err)
	}
	return nil
}

// Close closes the connections outside of the pool: the one for notifications, and those
// for renewals while the pool is full. Otherwise they close after a minute without waiters,
// or without such renewals. If every connection must be closed when Pool.Close returns,
// call this Close first. Waiters continue to wait, and poll. Renewals continue, and wait
// for a connection of the pool. Close returns nil, after the renewals that use one of its
// connections.
func (i *Issuer) Close() error {
	i.queue.stopListening()
	i.queue.group.Wait()
	i.spare.close()
	return nil
}

func checkToken(resource, holder string, ttl time.Duration) error {
	if err := (token.Token{Resource: resource, Number: 1, Holder: holder}).Validate(); err != nil {
		return err
	}
	return checkTTL(ttl)
}

func checkTTL(ttl time.Duration) error {
	if ttl < time.Microsecond {
		return fmt.Errorf("pgtoken: ttl %s is less than 1µs", ttl)
	}
	return nil
}
