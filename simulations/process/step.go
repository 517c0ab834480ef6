package process

// The steps of a writer besides those of its transactions and requests. What a
// claim does has "claim " before its name.
const (
	stepAcquire = "acquire" // will ask for the lock
	stepGranted = "granted" // has it, and does nothing yet
	stepClaimed = "claimed" // has raised the mark
	stepDo      = "do"      // will begin its unit of work
	stepDone    = "done"    // its unit was answered
	stepRelease = "release" // will give the lock back
	claiming    = "claim "
)

// enter says what comes before the names of steps from now on.
func (u *unit) enter(prefix string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.prefix = prefix
}

// pass returns at once, or when the writer has been stopped here and continued.
func (u *unit) pass(step string) {
	u.mu.Lock()
	step = u.prefix + step
	u.steps = append(u.steps, step)
	u.seen[step]++
	stop := !u.stopped && u.order.Step == step && u.order.Nth == u.seen[step]
	u.stopped = u.stopped || stop
	u.mu.Unlock()
	if stop {
		u.stop()
	}
}
