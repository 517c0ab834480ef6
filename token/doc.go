// Package token numbers the acquisitions of a lock, and carries the number to
// the place where a write is checked.
//
// # What it is
//
// A [Token] is the proof of one acquisition: the resource it is for, a number
// that grows with every acquisition of that resource, and the holder, an id
// of that one acquisition. An [Issuer] grants tokens; the subpackages
// redistoken, pgtoken and memtoken are issuers. A [Locker] is what programs
// use: it waits for the resource, keeps the [Lease] alive while the work runs,
// and puts the token into the context of that work.
//
//	Locker ──Acquire──▶ Issuer
//	   │ Grant{Token, Until}
//	   ▼
//	 Lease ──Context──▶ ctx ──FromContext──▶ guard ──▶ the write
//
// # What it promises
//
//   - Of one resource, a later acquisition has a greater number.
//   - The context of a lease is cancelled, with cause [ErrLost], before the
//     issuer can give the resource to somebody else, as far as this process's
//     clock runs and its scheduler lets it.
//   - A token never changes. Code that was paused wakes up with the number it
//     fell asleep with.
//
// # What it does not
//
// It does not make writes safe. A process can be stopped after the last look
// at its context and go on an hour later. Only the resource itself can refuse
// that write: see package guard and sqlguard. The deadline kept here is a
// courtesy that ends useless work early. It runs on the monotonic clock, which
// stops while the machine is suspended.
//
// Goroutines inside one Hold are not excluded from each other.
//
//	locker := token.Locker{Issuer: &redistoken.Issuer{Client: rdb}, Name: "billing"}
//	err := locker.Hold(ctx, "account/42", func(ctx context.Context) error {
//		return sqlguard.Update(ctx, pool, "account/42", withdraw)
//	})
package token
