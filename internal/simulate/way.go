package simulate

// Way is what a writer does between its read and its write.
type Way string

// The four ways, from the most naive to the one that works.
const (
	// Unguarded writes: it has the lock, so why not.
	Unguarded Way = "unguarded"
	// Recheck asks Redis whether the lock is still its own, then writes.
	Recheck Way = "recheck"
	// CheckThenWrite compares its token with the mark beside the row, then
	// writes row and mark.
	CheckThenWrite Way = "check-then-write"
	// Guarded claims before it reads, and has its token compared with the mark
	// inside the transaction that writes.
	Guarded Way = "guarded"
)

// Ways returns all of them, in the order in which a run takes them.
func Ways() []Way { return []Way{Unguarded, Recheck, CheckThenWrite, Guarded} }
