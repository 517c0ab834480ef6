package guardtest_test

import (
	"slices"
)

const (
	first         = "a resource without a mark admits every complete token"
	greater       = "a greater number is admitted"
	lesser        = "a lesser number is refused"
	again         = "the mark's own holder is admitted again"
	collision     = "an equal number of another holder is refused"
	numeric       = "numbers are compared as numbers"
	apart         = "resources have marks of their own"
	remembered    = "marks are not forgotten"
	unchanged     = "a refusal changes nothing"
	told          = "a refusal is a StaleError with the token and the mark"
	incomplete    = "an incomplete token is refused with its own error"
	cancelled     = "an ended context is no refusal and lowers no mark"
	resourceBytes = "resources are compared byte by byte"
	holderBytes   = "holders are compared byte by byte"
	whole         = "names are kept whole"
	oneStep       = "compare and raise are one step"
	spurious      = "contention refuses nobody but the stale"
)

// fault is one way to be wrong. breaks are the rules that catch it, all of
// them; in a race any fault may show, so the two rules about races count only
// where they are named.
type fault struct {
	name   string
	breaks []string
	apply  func(m *mutant)
}

var mutants = slices.Concat(orderFaults, stateFaults, nameFaults, answerFaults)
