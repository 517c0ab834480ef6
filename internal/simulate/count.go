package simulate

// Count is what was counted in the rounds of one way.
type Count struct {
	Name           Way `json:"name"`
	StaleAttempted int `json:"stale_attempted"` // A wrote, or tried to, with a token older than B's
	StaleAccepted  int `json:"stale_accepted"`  // and its write is in the row, or was acknowledged
	UpdatesLost    int `json:"updates_lost"`    // acknowledged increments, of either, that the row does not have
	Refused        int `json:"refused"`         // A was told that its token is stale

	// Example is the first of the rounds.
	Example *Round `json:"-"`
}

// add counts a round. A refusal does not keep a stale write from being counted
// as accepted if the row has it: what the database holds decides.
func (c *Count) add(r *Round) {
	if c.Example == nil {
		c.Example = r
	}
	c.StaleAttempted++
	c.UpdatesLost += len(r.Lost())
	if r.answerA.Kind == Accepted || r.row.has("A", amountA) {
		c.StaleAccepted++
	}
	if r.answerA.Kind == Refused {
		c.Refused++
	}
}
