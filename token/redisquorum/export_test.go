package redisquorum

// The scripts, for tests that play the protocol step by step.
var (
	AcquireScript  = acquireScript
	WriteScript    = writeScript
	CountersScript = countersScript
	JoinScript     = joinScript
	WithdrawScript = withdrawScript
	RenewScript    = renewScript
	ReleaseScript  = releaseScript
)

// Buckets is how many counters a node has.
const Buckets = buckets
