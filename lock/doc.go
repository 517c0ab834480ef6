// Package lock holds resources for a program: it acquires a token from an issuer,
// renews the lease while the work runs, and releases it.
//
// # What it is
//
// A program fills in one [Locker]. [Locker.Hold] waits for a resource and runs a function
// with a context that carries the token. Each acquisition is a [Lease]. The package has
// one renewer for each issuer, which renews all leases of the process. [Hooks] report
// events.
//
//	Locker ──Acquire──▶ token.Issuer     redistoken, pgtoken, memtoken, your own
//	   │ ◀──token.Grant──┘
//	   │ ──Claim──▶ guard                raises the mark, before the work reads
//	   ▼
//	 Lease ──Context──▶ ctx ──token.FromContext──▶ guard ──▶ the write
//	   └──Renew, Release──▶ token.Issuer
//
// # What it promises
//
//   - The context of a lease ends, with cause [token.ErrLost], before the issuer can
//     grant the resource to another holder. This depends on the process's clock and on
//     its scheduler: a timer can fire late on a busy machine.
//   - Claim has raised the guard's mark before the work begins. From then on, the guard
//     refuses every write of an earlier holder.
//   - A Hold inside a Hold of the same resource uses the same token.
//   - If a guard refuses a live lease because the issuer has lost its memory, the
//     Locker recovers the issuer, so that the next acquisition is admitted.
//   - Hold returns the error of the work, joined with the errors of the lease.
//
// # What it does not do
//
// It does not make writes safe. A process can check its context, be paused for an hour,
// and then write. Only the resource can refuse that write: see package
// [github.com/fencepost/fencepost/guard] and package
// [github.com/fencepost/fencepost/sqlguard]. The end of the context only stops useless
// work early. It is timed on the monotonic clock, which stops while the machine is
// suspended.
//
// Goroutines inside one Hold do not exclude each other.
//
// # Use
//
//	locker := lock.Locker{Issuer: &redistoken.Issuer{Client: rdb}, Claim: fence.Admit}
//	err := locker.Hold(ctx, "account/42", func(ctx context.Context) error {
//		return fence.Update(ctx, "account/42", withdraw)
//	})
//
// # Where next
//
// docs/locks.md describes the choice of an issuer and the settings, docs/errors.md every error.
// docs/observing.md shows the hooks as metrics. To write an issuer, read [token.Issuer]
// and package [github.com/fencepost/fencepost/token/tokentest].
package lock

// The files of this package, in reading order:
//
//	locker.go    the settings, their defaults, and which are refused; ErrWaitTimeout,
//	             ErrNotReleased, ErrNotLeased, ErrNoClaim; the id of a holder
//	hold.go      Hold and Acquire: grant, renewal and claim of a new lease, in this order; a
//	             refused claim, and the next attempt after a recovery; how the errors of work,
//	             lease and release are joined; a Hold inside a Hold: the same token,
//	             ErrNotLeased, or a new lease; which issuers count as one (Unwrap)
//	hold_many.go HoldAll and its order; HoldAny: the first free resource of several, and a
//	             second grant; Slots, the names of a semaphore
//	candidate.go leader election: which errors of a campaign are final, and what follows when
//	             lead returns; what IsLeader does not protect; the context of a term
//	observer.go  who leads: a hint, read in intervals; a read that is older than the last one
//	wait.go      the wait for a grant, in a queue or by polling: pauses, an unreachable issuer,
//	             the error at the end; the release of a grant that the caller does not use
//	lease.go     when a lease's context ends; Release, and HoldAtLeast; "the grant had expired
//	             when it arrived"
//	renewer.go   when leases are renewed, and which in one call; a renewal that fails or comes
//	             late; when a lease is lost (HoldAtMost too); the one timer of an issuer
//	recovery.go  a guard refused a live lease: the issuer had forgotten its numbers and is
//	             raised, or the lease was lost; "recovered too often"
//	hooks.go     which event calls which hook, and on which goroutine; what is logged if there
//	             is no hook
