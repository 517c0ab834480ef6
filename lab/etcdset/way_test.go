package etcdset_test

// way is how a process treats a lock that it may have lost.
type way string

// The ways, from the most naive on. watched and transaction are additional to the four
// ways of the experiment.
const (
	// lockOnly reads, works and writes, and relies on the lock.
	lockOnly way = "lock-only"
	// watched is lockOnly, and stops when the context of its lease ends. All other ways
	// ignore that end, as the original did, so that only the mechanism in their name
	// protects them.
	watched way = "watched"
	// checkThenWrite reads the mark beside the set as late as it can, in a statement of
	// its own, and then writes set and mark.
	checkThenWrite way = "check-then-write"
	// fenceOnWrite writes through sqlguard without a claim.
	fenceOnWrite way = "fence-on-write"
	// claimed is fenceOnWrite with a claim of the token before the read.
	claimed way = "claimed"
	// transaction claims too, and reads, works and writes inside one guarded transaction.
	transaction way = "transaction"
)

// allWays are the ways in the order of the table.
var allWays = []way{lockOnly, watched, checkThenWrite, fenceOnWrite, claimed, transaction}

// fenced reports whether the way promises to lose nothing.
func (w way) fenced() bool { return w == claimed || w == transaction }

var titles = map[way]string{
	lockOnly:       "lock only",
	watched:        "lock only, left when the lease's context ends",
	checkThenWrite: "check, then write",
	fenceOnWrite:   "fence on the write only",
	claimed:        "**Fencepost**: claim, read, guarded write",
	transaction:    "**Fencepost**: claim, one guarded transaction",
}
