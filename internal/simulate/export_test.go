package simulate

// Asleep is what a writer does at its pause.
func (p Pause) Asleep() error { return p.asleep(nil) }

// Counted returns what is counted of a round in which A was answered so, and
// the row ended with these increments.
func Counted(answerA Kind, increments string) Count {
	var c Count
	c.add(&Round{answerA: Event{Kind: answerA}, row: account{increments: increments}})
	return c
}

// Tail returns what is kept of these writes.
func Tail(writes ...string) string {
	var t tail
	for _, text := range writes {
		_, _ = t.Write([]byte(text))
	}
	return t.String()
}
