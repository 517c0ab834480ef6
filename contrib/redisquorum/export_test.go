package redisquorum

import "time"

// The scripts, for tests that run the protocol step by step.
var (
	AcquireScript  = acquireScript
	WriteScript    = writeScript
	CountersScript = countersScript
	RejoinScript   = rejoinScript
	WithdrawScript = withdrawScript
	RenewScript    = renewScript
	ReleaseScript  = releaseScript
)

// Buckets is the number of counters of a node.
const Buckets = buckets

// Patient makes i wait for nodes as long as a busy machine may delay them. It must be
// called before i is used. It does not change how long Acquire retries.
func (i *Issuer) Patient(d time.Duration) {
	if q, err := i.quorum(); err == nil {
		q.request, q.straggler, q.stall = d, d, d
	}
}

// RetryFor sets for how long Acquire retries. It must be called before i is used.
func (i *Issuer) RetryFor(d time.Duration) {
	if q, err := i.quorum(); err == nil {
		q.retry = d
	}
}

// Abandoned returns how many requests of collect are in flight whose callers have returned.
func (i *Issuer) Abandoned() (requests int32) {
	if q, err := i.quorum(); err == nil {
		for _, n := range q.nodes {
			requests += n.abandoned.Load()
		}
	}
	return requests
}
