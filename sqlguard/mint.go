package sqlguard

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/token"
)

// Mint is [Guard.Mint] with the marks in schema "fencepost".
func Mint(ctx context.Context, db DB, resource, holder string) (token.Token, error) {
	return (&Guard{}).Mint(ctx, db, resource, holder)
}

// Mint makes a token for people who have a lock already that does not number
// its holders. Call it right after the lock was acquired: its number is above
// the mark, and the mark is raised to it. Whoever minted last is the writer from
// then on, however slow it was, and what it reads after Mint is safe to write
// back. Rows of a [Table] have marks of their own, of which Mint does not know:
// [Table.Claim] comes right behind it. holder names this one acquisition: two
// must never share it. Neither may be longer than a token allows:
// [token.ErrInvalid].
//
// On a pool or a connection it is one durable transaction of its own, one
// packet, and waits for older writers as [Guard.Idle] says, g's DB and Tx
// aside. After [guard.ErrUnknown], mint again. On a pgx.Tx it is a statement of
// that transaction, admits its token there, and makes others wait until it is
// over; use the token elsewhere only after the COMMIT. Under a fixed snapshot,
// REPEATABLE READ or SERIALIZABLE, the error is [guard.ErrClaimFirst].
func (g *Guard) Mint(ctx context.Context, db DB, resource, holder string) (token.Token, error) {
	// The number to wait with is the highest: whoever is in is older.
	tok, err := token.New(resource, token.MaxNumber, holder)
	if err != nil {
		return token.Token{}, err
	}
	c, err := g.call(ctx, db)
	if err != nil {
		return token.Token{}, err
	}
	c.toks = []token.Token{tok}
	c.admit = admission{
		sql:  c.stmts.mint,
		args: func(tok token.Token) []any { return []any{tok.Resource, tok.Holder, c.bound()} },
		read: func(_ context.Context, br pgx.BatchResults, _ token.Token) error {
			return br.QueryRow().Scan(&tok.Number)
		},
	}
	if _, ok := transaction(db); ok {
		err = c.join(ctx)
	} else {
		err = c.commit(ctx)
	}
	if err != nil {
		return token.Token{}, err
	}
	return token.New(resource, tok.Number, holder)
}
