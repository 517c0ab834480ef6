package httpguard

// Queues returns the number of resources that have a request in f.
func Queues(f *InFlight) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.queues)
}

// Waiting returns the number of requests that wait in f.
func Waiting(f *InFlight) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.queues {
		n += q.Waiting()
	}
	return n
}

// ParseKey and FormatKey read and write the field Idempotency-Key.
var (
	ParseKey  = parseKey
	FormatKey = formatKey
)
