package lockset

// Way is what a process does about a lock that it may have lost.
type Way string

// The ways, from the most naive on. [Watched] and [Transaction] are beside the
// four that the experiment is about, since both questions are asked at once.
const (
	// LockOnly reads, works and writes: it has the lock, so why not.
	LockOnly Way = "lock-only"
	// Watched is LockOnly that stops where its lease's context ends. All other
	// ways pass over that end, as the original did, so that nothing but what
	// they are named after protects them.
	Watched Way = "watched"
	// CheckThenWrite asks for the mark beside the set, as late as it can, in a
	// statement of its own, and then writes set and mark.
	CheckThenWrite Way = "check-then-write"
	// FenceOnWrite writes through sqlguard, but does not claim.
	FenceOnWrite Way = "fence-on-write"
	// Claimed is FenceOnWrite with the token claimed before the read, which is
	// all the difference.
	Claimed Way = "claimed"
	// Transaction is claimed too, and reads, works and writes inside one guarded
	// transaction.
	Transaction Way = "transaction"
)

// Ways returns all of them, in the order of the table.
func Ways() []Way {
	return []Way{LockOnly, Watched, CheckThenWrite, FenceOnWrite, Claimed, Transaction}
}

// Fenced reports whether the way promises to lose nothing.
func (w Way) Fenced() bool { return w == Claimed || w == Transaction }

func (w Way) title() string {
	return map[Way]string{
		LockOnly:       "lock only",
		Watched:        "lock only, left when the lease's context ends",
		CheckThenWrite: "check, then write",
		FenceOnWrite:   "fence on the write only",
		Claimed:        "**Fencepost**: claim, read, guarded write",
		Transaction:    "**Fencepost**: claim, one guarded transaction",
	}[w]
}
