package stdsql

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// Mint numbers an acquisition of a lock that does not number its holders. Call it right
// after the lock was acquired. In one transaction of its own it takes a number above the
// mark of resource, raises the mark to it, and returns ctx with the token: write under the
// returned context. From then on every older token is refused, whatever the lock reports,
// and what is read after Mint can be written back. [token.FromContext] returns the token
// itself.
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
// After every error except ErrUnknown the mark is unchanged. The context beside an error
// has a token of resource without a number: under it, every guarded write returns
// [token.ErrInvalid], even if ctx has an older token of resource.
//
// In report-only mode Mint works the same way, since the caller needs the number, but ends
// no session: on PostgreSQL it waits for older writers until ctx ends.
func (g *Guard) Mint(ctx context.Context, resource, holder string) (context.Context, error) {
	tok := token.Token{Resource: resource, Holder: holder}
	err := mintable(tok)
	if err != nil {
		return minted(ctx, tok, err)
	}
	c, err := g.newCall(ctx, claiming, tok)
	if err != nil {
		return minted(ctx, tok, err)
	}
	c.minted = &tok.Number
	err = c.claim(asClaim(ctx))
	return minted(ctx, tok, guard.WithCause(ctx, err))
}

// MintTx is [Guard.Mint] in a transaction that the caller has begun. The mark is raised
// when that transaction commits, and unchanged if it rolls back. Use the returned context
// elsewhere only after the COMMIT. MintTx also admits its token, so what follows in the
// transaction is guarded without [Guard.Join], and all other writers of resource wait
// until the transaction ends. Call it before the transaction reads anything that the
// write depends on. It does not use DB.
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
func (g *Guard) MintTx(ctx context.Context, tx Tx, resource, holder string) (context.Context, error) {
	tok := token.Token{Resource: resource, Holder: holder}
	err := g.admitInto(ctx, tx, &tok.Number, func(*Guard) ([]token.Token, error) {
		return []token.Token{{Resource: resource, Holder: holder}}, mintable(tok)
	})
	return minted(ctx, tok, err)
}

// minted returns what Mint does, and reports a token that was minted to a simulation. tok
// may have a number beside an error: that of a COMMIT whose outcome is unknown.
func minted(ctx context.Context, tok token.Token, err error) (context.Context, error) {
	if err != nil {
		tok.Number = 0
	} else {
		noteMinted(ctx, tok)
	}
	return token.NewContext(ctx, tok), err
}

// mintable returns an error if tok is not valid whatever its number.
func mintable(tok token.Token) error {
	tok.Number = token.MaxNumber
	return tok.Validate()
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
