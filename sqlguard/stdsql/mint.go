package stdsql

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// Mint numbers an acquisition of a lock that does not number its holders. Call it right
// after the lock was acquired. In one transaction of its own it takes a number above the
// mark of resource, raises the mark to it, and returns the token. From then on every
// older token is refused, whatever the lock reports, and what is read after Mint can be
// written back under the token.
//
// The database computes the number in the statement that raises the mark. It is the
// highest of three: the clock in units of 10 µs since 1970, the mark plus one, and the
// floor of the pruned marks. So it is comparable with the numbers of all issuers.
//
// holder names this one acquisition: two acquisitions must never share a name. The
// transaction is as durable as the one of [Guard.Admit] and waits for older writers as
// described at [Guard.IdleTimeout]. On PostgreSQL, Tx has no effect, but a read-only Tx
// is an error. The other errors are:
//
//   - [token.ErrInvalid] if resource or holder is not a valid name. Nothing was sent.
//   - [token.ErrExhausted] if no number above the mark is left. The mark is unchanged. It
//     was raised too far, by mistake or on purpose, and must be lowered by hand; on
//     PostgreSQL fencepost.reset does that.
//   - [guard.ErrUnknown] if the connection failed after COMMIT was sent. The mark may be
//     raised. Call Mint again: the next number is higher.
//   - [guard.ErrRetryable] if a concurrent transaction was in the way. On MySQL and
//     SQLite also if older writers did not finish in time.
//   - [guard.ErrEvicted] if the server ended the session before COMMIT was sent.
//   - [guard.ErrUnfenced] if the engine is not known to fence.
//
// After every error except ErrUnknown the mark is unchanged. In report-only mode Mint
// works the same way, since the caller needs the number, but ends no session: on
// PostgreSQL it waits for older writers until ctx ends.
func (g *Guard) Mint(ctx context.Context, resource, holder string) (token.Token, error) {
	tok, err := unnumberedToken(resource, holder)
	if err != nil {
		return token.Token{}, err
	}
	c, err := g.newCall(ctx, claiming, tok)
	if err != nil {
		return token.Token{}, err
	}
	c.minted = &tok.Number
	if err := c.claim(asClaim(ctx)); err != nil {
		return token.Token{}, guard.WithCause(ctx, err)
	}
	return minted(ctx, tok)
}

// MintTx is [Guard.Mint] in a transaction that the caller has begun. The mark is raised
// when that transaction commits, and unchanged if it rolls back. Use the token elsewhere
// only after the COMMIT. MintTx also admits its token, so what follows in the transaction
// is guarded without [Guard.Join], and all other writers of resource wait until the
// transaction ends. Call it before the transaction reads anything that the write depends
// on. It does not use DB.
//
// The transaction's snapshot must be taken after the last older write, or what is read
// after MintTx lacks that write. So MintTx returns [guard.ErrClaimFirst] on PostgreSQL
// under REPEATABLE READ and SERIALIZABLE, and always on MySQL and MariaDB: their default
// is REPEATABLE READ, and no statement returns the isolation level of a transaction or
// shows whether it has read. On these, call [Guard.Mint] before the transaction begins,
// and Join in it.
//
// The other errors are those of Mint, without ErrUnknown and ErrEvicted, which belong to
// the COMMIT. [guard.ErrRetryable] is also returned if older writers did not finish
// within IdleTimeout, since MintTx ends no session, and on SQLite if the transaction has
// read and another one has written since. After an error the transaction can write
// nothing more, as after an error of [Guard.Join], which also describes what tx may be.
func (g *Guard) MintTx(ctx context.Context, tx Tx, resource, holder string) (token.Token, error) {
	var tok token.Token
	err := g.admitInto(ctx, tx, &tok.Number, func(*Guard) ([]token.Token, error) {
		unnumbered, err := unnumberedToken(resource, holder)
		tok.Resource, tok.Holder = resource, holder
		return []token.Token{unnumbered}, err
	})
	if err != nil {
		return token.Token{}, err
	}
	return minted(ctx, tok)
}

// minted returns the token that was minted, and reports it to a simulation.
func minted(ctx context.Context, tok token.Token) (token.Token, error) {
	noteMinted(ctx, tok)
	return token.New(tok.Resource, tok.Number, tok.Holder)
}

// unnumberedToken returns a token without a number, for a mint.
func unnumberedToken(resource, holder string) (token.Token, error) {
	if _, err := token.New(resource, token.MaxNumber, holder); err != nil {
		return token.Token{}, err
	}
	return token.Token{Resource: resource, Holder: holder}, nil
}

// action describes what an admission does with tok, for error texts.
func action(tok token.Token) string {
	if tok.Number == 0 {
		return "mint " + tok.Resource
	}
	return "admit " + tok.String()
}

// exhausted returns the error of a mint if no number is left.
func exhausted(tok token.Token, err error) error {
	if err == nil {
		return fmt.Errorf("%w: stdsql: %s", token.ErrExhausted, action(tok))
	}
	return fmt.Errorf("%w: stdsql: %s: %w", token.ErrExhausted, action(tok), err)
}
