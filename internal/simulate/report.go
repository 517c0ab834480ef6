package simulate

// Report is the outcome of a run.
type Report struct {
	Rounds int     `json:"rounds"`
	TTL    int64   `json:"ttl_ms"`
	Issuer string  `json:"issuer"` // "redis" or "redis (embedded)"
	Store  string  `json:"store"`  // "postgres" or "sqlite (embedded)"
	Pause  string  `json:"pause"`  // "SIGSTOP" or "in-process"
	Runs   []Count `json:"runs"`
}

// Of returns what was counted of one way; zero if it was not run.
func (r *Report) Of(way Way) Count {
	for _, count := range r.Runs {
		if count.Name == way {
			return count
		}
	}
	return Count{Name: way}
}

// Fenced reports whether the guard did its work: stale writes were tried, none
// was accepted, and no update was lost.
func (r *Report) Fenced() bool {
	c := r.Of(Guarded)
	return c.StaleAttempted > 0 && c.StaleAccepted == 0 && c.UpdatesLost == 0
}

// Corrupted reports whether the same without a guard lost updates. A run in
// which nothing went wrong without a guard says nothing about the guard.
func (r *Report) Corrupted() bool { return r.Of(Unguarded).UpdatesLost > 0 }
