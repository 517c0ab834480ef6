package guard

import "errors"

// A guarded write has exactly one outcome: it was applied (nil), it was
// refused ([ErrStale], [ErrCollision], or the token package's errors for a
// token that is missing, released or incomplete), or it is one of these. Any
// other error is an ordinary failure with nothing applied.
var (
	// ErrRetryable means that a concurrent transaction was in the way (a
	// serialization failure, a deadlock, a busy database). Nothing was
	// applied. Run the transaction again: if the token has become stale in
	// the meantime, the next run says so.
	ErrRetryable = errors.New("guard: concurrent transaction, nothing applied")
	// ErrUnknown means that the connection failed after the commit was sent:
	// the write may or may not have been applied, or is still on its way.
	// Under the same token it can arrive after you have looked for it, or
	// over what you write next: the mark admits it. So end the Hold, acquire
	// and claim again, and read then: what arrives later is refused.
	ErrUnknown = errors.New("guard: outcome unknown")
	// ErrEvicted means that the server ended the transaction, because it was
	// idle for too long or because a newer holder would not wait for it any
	// more. Nothing was applied.
	ErrEvicted = errors.New("guard: transaction ended by the server, nothing applied")
	// ErrClaimFirst means that a transaction had taken its fixed snapshot
	// (REPEATABLE READ, SERIALIZABLE) before its token had raised the mark:
	// it could read what the older holder's last write is missing from.
	// Nothing was applied. Claim first, in a transaction of its own. Of a row
	// that carries its own mark: nobody has made that mark yet.
	ErrClaimFirst = errors.New("guard: claim before the snapshot, nothing applied")
	// ErrNoRow means that the row that was to be written is not there, or
	// that a statement's other conditions have passed it over, and that no
	// mark refuses the token. Nothing was applied. It comes from guards of rows
	// that carry their own mark, where a statement that matches nothing would
	// otherwise look like a refusal.
	ErrNoRow = errors.New("guard: no such row, nothing applied")
)
