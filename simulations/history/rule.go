package history

// Place says whose promise a rule is.
type Place string

// Whose promise a rule is.
const (
	AtResource Place = "resource" // the guard's and the user's code
	AtLock     Place = "lock"     // the issuer's
	AtAlive    Place = "alive"    // both: work goes on
)

// Rule is something that every correct history keeps to. Its ID is one word,
// which code, docs and verdicts share.
type Rule struct {
	ID    string
	At    Place
	Words string // a sentence
}

// String returns the id.
func (r Rule) String() string { return r.ID }

// Rules lists all rules, in the order in which [Check] judges them.
func Rules() []Rule {
	all := make([]Rule, len(judges))
	for i, j := range judges {
		all[i] = j.rule
	}
	return all
}

// A judge returns nil where its rule is kept.
type judge struct {
	rule  Rule
	judge func(*story) *Violation
}

var judges = []judge{
	{Rule{"order", AtResource, "No write is accepted below one that was accepted before it began."}, order},
	{Rule{"holder", AtResource, "A number is accepted from one holder only."}, holder},
	{Rule{"once", AtResource, "Every acknowledged unit is counted exactly once, and nothing else is."}, once},
	{Rule{"reason", AtResource, "Nothing is refused unless a greater number was given to somebody, or the same number to another holder."}, reason},
	{Rule{"mark", AtResource, "A mark never falls: none is read, and nothing admitted, below what the guard had admitted or refused by."}, mark},
	{Rule{"trace", AtResource, "What was refused, or failed, leaves no trace."}, trace},
	{Rule{"versions", AtResource, "Each accepted write makes the version after the one it read: no gaps, no duplicates, in the order of numbers and of time."}, versions},
	{Rule{"numbers", AtLock, "Each grant has a number of its own, greater than that of any grant that ended before it began."}, numbers},
	{Rule{"owner", AtLock, "Only the holder renews and releases."}, owner},
	{Rule{"alone", AtLock, "At any time one holder has an unexpired lease."}, alone},
	{Rule{"burnt", AtLock, "The number of a grant whose answer was lost goes to nobody else."}, burnt},
	{Rule{"alive", AtAlive, "Who asks after the last fault sees a write within twice the ttl."}, alive},
	{Rule{"bound", AtAlive, "A paused holder keeps nobody else's work waiting beyond the bound."}, bound},
}
