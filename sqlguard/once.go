package sqlguard

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
)

// Once applies a unit of work once, however often it is repeated: after any error, by any
// holder of resource, in any process. fn writes in a transaction that also records the
// unit under resource and its Key, with fn's result. If the unit is recorded, Once returns
// the first result, and fn does not run. A repeat that comes while the unit is being
// applied waits for it.
//
//   - A successor that repeats the unit gets the first result.
//   - A stale holder whose unit was applied gets its result, and otherwise the refusal.
//   - After [guard.ErrUnknown] the caller repeats Once: the first commit is found, or did
//     not happen.
//
// Once is [Guard.Update] in all other ways: the admission precedes every read of fn, an
// error of fn rolls back and is returned, and is not recorded, and the errors are the
// same. If the unit was not applied before, Once takes as many round trips as Update, and
// one more if the result is not empty. An empty result is returned as nil.
//
// Once also returns
//
//   - [guard.ErrKeyReused] if the unit was applied with another Fingerprint;
//   - a [*token.InvalidError] if the Key is not valid;
//   - [guard.ErrUnknown] if the unit is there, and it is not known whether the disk and
//     the synchronous standbys have it: a repeat writes to the log and waits for them,
//     whatever the session's synchronous_commit;
//   - an error if the result is longer than [guard.MaxResult];
//   - an error that is no refusal if the token was refused, and the server could not be
//     asked whether the unit was applied before. Nothing was applied; repeat Once.
//
// A unit is recorded for [Guard.Retention] at least. After that `fencepost marks prune` or
// the function prune_units deletes it, and a repeat is applied again.
// What fn does outside of the transaction is not covered: an e-mail is sent again if fn
// runs again.
//
// If DB is a pgx.Tx, the unit is recorded when that transaction commits, and the commit
// after a repeat waits: until it has succeeded, the result may be lost. Under REPEATABLE
// READ and SERIALIZABLE, a repeat returns [guard.ErrRetryable] if the unit was committed
// after the snapshot.
func (g *Guard) Once(ctx context.Context, resource string, unit guard.Unit, fn func(tx pgx.Tx) ([]byte, error)) ([]byte, error) {
	if err := g.config().CheckWritable(); err != nil {
		return nil, err
	}
	c, err := g.call(ctx, g.DB, resource)
	if err != nil {
		return nil, err
	}
	return c.Once(ctx, resource, unit, fn)
}
