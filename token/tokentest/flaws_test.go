package tokentest_test

const (
	none flaw = "none"

	numbersFromOne        flaw = "numbers start at one"
	numbersOnlyClock      flaw = "numbers are nothing but the clock"
	numbersInMicroseconds flaw = "numbers are microseconds, of sixteen digits"
	expiryForgetsNumber   flaw = "an expiry forgets the number"
	mintedBeforeDecision  flaw = "the number is minted before the decision that grants"
	mintedFromAnOldRead   flaw = "the number is one more than what was read before the decision"
	decidedThenWritten    flaw = "the decision and the write are two steps"

	holdersByPrefix     flaw = "holders are compared by prefix"
	holdersIgnoreCase   flaw = "holders are compared without case"
	secondGrantRefused  flaw = "the holder is refused its own resource"
	secondGrantKeepsTTL flaw = "a second grant does not prolong"

	refusalWithoutRemaining flaw = "a refusal does not say how long"
	refusalNamesTheAsker    flaw = "a refusal names the wrong holder"
	refusalIsBare           flaw = "a refusal is the bare sentinel"
	refusalProlongs         flaw = "a refused try sets the expiry"
	refusalTakesOver        flaw = "a refused try sets the holder"

	renewIgnoresHolder     flaw = "Renew does not check the holder"
	renewAcquires          flaw = "Renew acquires what is free"
	renewRevives           flaw = "Renew revives what has expired"
	renewUndoesRelease     flaw = "Renew undoes a release"
	renewalChangesNothing  flaw = "Renew does not prolong"
	renewalPromisesTooMuch flaw = "Renew returns an Until after the expiry"

	releaseIgnoresHolder  flaw = "Release does not check the holder"
	releaseForgetsNumber  flaw = "Release forgets the number"
	releaseComparesNumber flaw = "Release wants the number too"
	releaseAlwaysSucceeds flaw = "Release says nothing of a lost lease"
	releaseDoesNothing    flaw = "Release leaves it to the ttl"

	leasesNeverExpire flaw = "leases never expire"
	untilTooLate      flaw = "Until is half a ttl after the expiry"
	untilAfterGrace   flaw = "Until is a little after the expiry"
	untilOnWallClock  flaw = "Until is on the wall clock"
	untilIsNow        flaw = "Until is at once"

	oneLockForAll   flaw = "there is one lock for all resources"
	namesAreCut     flaw = "names are cut"
	namesIgnoreCase flaw = "names are compared without case"
	namesEndAtBrace flaw = "names end at a brace"
	namesUnchecked  flaw = "names are not checked"

	contextIgnored  flaw = "contexts are ignored"
	cancelledIsLost flaw = "a cancelled renewal counts as lost"
)

// issuerMutants says for each flaw which rules must find it.
var issuerMutants = map[flaw][]string{
	numbersFromOne:        {"a number is at least the clock in units of 10 µs"},
	numbersOnlyClock:      {"numbers rise over a release", "numbers rise over a release to the same holder"},
	numbersInMicroseconds: {"a grant names what was asked for, under a number of at most fifteen digits"},
	expiryForgetsNumber:   {"numbers rise over an expiry"},
	mintedBeforeDecision:  {"numbers are unique and rise in the order of the grants, however many ask at once"},
	mintedFromAnOldRead:   {"numbers are unique and rise in the order of the grants, however many ask at once"},
	decidedThenWritten:    {"a resource has one unexpired holder at a time"},

	holdersByPrefix: {
		"holders are compared whole by Acquire",
		"holders are compared whole by Renew",
		"holders are compared whole by Release",
	},
	holdersIgnoreCase:   {"holders are compared whole by Release"},
	secondGrantRefused:  {"the holder is granted its resource again, for the whole ttl"},
	secondGrantKeepsTTL: {"the holder is granted its resource again, for the whole ttl"},

	refusalWithoutRemaining: {"a resource that is held is refused, with its holder and the rest of its ttl"},
	refusalNamesTheAsker:    {"a resource that is held is refused, with its holder and the rest of its ttl"},
	refusalIsBare:           {"a resource that is held is refused, with its holder and the rest of its ttl"},
	refusalProlongs:         {"a refused try changes nothing"},
	refusalTakesOver:        {"a refused try changes nothing"},

	renewIgnoresHolder:     {"only the holder renews", "a renewal never takes from a successor"},
	renewAcquires:          {"a renewal never acquires what was never held"},
	renewRevives:           {"a renewal never acquires what has expired"},
	renewUndoesRelease:     {"a renewal never acquires what was released"},
	renewalChangesNothing:  {"a renewed lease outlasts its first ttl"},
	renewalPromisesTooMuch: {"nobody else is granted the resource before the Until of a renewal"},

	releaseIgnoresHolder:  {"only the holder releases"},
	releaseForgetsNumber:  {"numbers rise over a release to the same holder"},
	releaseComparesNumber: {"the number plays no part in a release"},
	releaseAlwaysSucceeds: {"what is no longer held cannot be released"},
	releaseDoesNothing:    {"a release frees the resource at once"},

	leasesNeverExpire: {"an expired lease passes on"},
	untilTooLate:      {"nobody else is granted the resource before Until"},
	untilAfterGrace:   {"nobody else is granted the resource before Until"},
	untilIsNow:        {"Until counts the whole ttl on the monotonic clock"},

	oneLockForAll:   {"resources are independent"},
	namesAreCut:     {"every valid name is a resource of its own"},
	namesIgnoreCase: {"every valid name is a resource of its own"},
	namesEndAtBrace: {"every valid name is a resource of its own"},
	namesUnchecked:  {"what no token can carry is not granted"},

	contextIgnored: {
		"an Acquire under a cancelled context returns soon and grants nothing that lasts",
		"a Release under a cancelled context returns soon and does not say that the lease is lost",
	},
	cancelledIsLost: {"a Renew under a cancelled context returns soon and does not say that the lease is lost"},
}
