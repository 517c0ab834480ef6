package simulate

// Counted returns what is counted of a round in which A was answered so, and
// the row ended with these increments.
func Counted(answerA Kind, increments string) Count {
	var c Count
	c.add(&Round{answerA: Event{Kind: answerA}, row: account{increments: increments}})
	return c
}
