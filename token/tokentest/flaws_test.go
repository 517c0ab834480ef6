package tokentest_test

const (
	none flaw = "none"

	numbersFromOne        flaw = "numbers start at one"
	numbersOnlyClock      flaw = "numbers are nothing but the clock"
	numbersInSeconds      flaw = "numbers are at least a clock of whole seconds"
	numbersInMicroseconds flaw = "numbers are microseconds, of sixteen digits"
	expiryForgetsNumber   flaw = "an expiry forgets the number"
	mintedBeforeDecision  flaw = "the number is minted before the decision that grants"
	mintedFromAnOldRead   flaw = "the number is one more than what was read before the decision"
	decidedThenWritten    flaw = "the decision and the write are two steps"

	holdersByPrefix     flaw = "holders are compared by prefix"
	holdersIgnoreCase   flaw = "holders are compared without case"
	secondGrantRefused  flaw = "the holder is refused its own resource"
	secondGrantKeepsTTL flaw = "a second grant does not prolong"

	refusalWithoutRemaining flaw = "a refusal has no remaining time"
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
	releaseComparesNumber flaw = "Release compares the number too"
	releaseAlwaysSucceeds flaw = "Release returns nil for a lost lease"
	releaseDoesNothing    flaw = "Release does nothing"

	leasesNeverExpire flaw = "leases never expire"
	untilTooLate      flaw = "Until is half a ttl after the expiry"
	untilSlightlyLate flaw = "Until is a little after the expiry"
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

// issuerMutants maps each flaw to the rules that must find it.
var issuerMutants = map[flaw][]string{
	numbersFromOne:        {"a number is at least the clock in units of 10 µs"},
	numbersOnlyClock:      {"numbers rise over a release", "numbers rise over a release to the same holder"},
	numbersInMicroseconds: {"a grant has the requested resource and holder, and a number of at most fifteen digits"},
	expiryForgetsNumber:   {"numbers rise over an expiry"},
	mintedBeforeDecision:  {"numbers are unique and rise in the order of the grants, however many callers there are"},
	mintedFromAnOldRead:   {"numbers are unique and rise in the order of the grants, however many callers there are"},
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
	renewalPromisesTooMuch: {"no other holder is granted the resource before the Until of a renewal"},

	releaseIgnoresHolder:  {"only the holder releases"},
	releaseForgetsNumber:  {"numbers rise over a release to the same holder"},
	releaseComparesNumber: {"a release does not compare the number"},
	releaseAlwaysSucceeds: {"what is no longer held cannot be released"},
	releaseDoesNothing:    {"a release frees the resource at once"},

	leasesNeverExpire: {"an expired lease can be acquired"},
	untilTooLate:      {"no other holder is granted the resource before Until"},
	untilSlightlyLate: {"no other holder is granted the resource before Until"},
	untilIsNow:        {"Until counts the whole ttl on the monotonic clock"},

	oneLockForAll:   {"resources are independent"},
	namesAreCut:     {"every valid name is a resource of its own"},
	namesIgnoreCase: {"every valid name is a resource of its own"},
	namesEndAtBrace: {"every valid name is a resource of its own"},
	namesUnchecked:  {"a name that is not valid in a token is refused"},

	contextIgnored: {
		"an Acquire under a cancelled context returns soon and grants nothing that lasts",
		"a Release under a cancelled context returns soon, and its error is not ErrLost",
	},
	cancelledIsLost: {"a Renew under a cancelled context returns soon, and its error is not ErrLost"},
}

const (
	queueFromItsEnd       flaw = "the queue is served from its end"
	queueIsACrowd         flaw = "the queue is served in any order"
	queueIsSortedByName   flaw = "the queue is sorted by name"
	waitNeedsARelease     flaw = "Wait is granted nothing but what is released"
	waitBarges            flaw = "Wait takes what is free, past the queue"
	acquireBarges         flaw = "Acquire takes what is free, past the queue"
	lastHolderBarges      flaw = "the last holder takes back what it released"
	releaseWakesAll       flaw = "a release frees, and all waiters poll"
	expiryStrandsTheQueue flaw = "only a release hands over"
	renewedIsHandedOver   flaw = "the queue is served when the first ttl has passed, renewed or not"
	holderWaitsForItself  flaw = "the holder waits for itself"

	leavingKeepsThePlace flaw = "a waiter that leaves stays in the queue"
	leavingKeepsTheGrant flaw = "a waiter that leaves keeps what it was handed in that moment"
	leavingFreesWhatever flaw = "a waiter that leaves frees the resource of any holder"
	leavingHasNoCause    flaw = "a waiter that leaves gets no cause in its error"
	leavingNamesNone     flaw = "a waiter that leaves gets no HeldError"
	leavingNamesItself   flaw = "a waiter that leaves gets the wrong holder in its error"

	handoffKeepsTheNumber    flaw = "a hand-off mints no number"
	handoffForgetsTheRecover flaw = "a hand-off mints from the clock alone"
	handoffIsBrief           flaw = "a hand-off has expired when the waiter receives it"
	handoffPromisesTheTTL    flaw = "Until of a hand-off is that of the whole ttl"
	handoffIsOnlySent        flaw = "a hand-off is sent, and not written"
	handoffServesTwo         flaw = "one release serves two"
	untilAtReceipt           flaw = "Until of a hand-off is counted from its receipt"
)

var queueMutants = map[flaw][]string{
	queueFromItsEnd: {
		"waiters are served in the order of their calls",
		"waiters in a crowd are served equally often, one at a time, under rising numbers",
	},
	queueIsACrowd:       {"waiters are served in the order of their calls"},
	queueIsSortedByName: {"waiters in a crowd are served equally often, one at a time, under rising numbers"},
	waitNeedsARelease:   {"a Wait for a free resource is granted at once"},
	waitBarges:          {"no caller overtakes the queue during an expiry"},
	acquireBarges:       {"no caller overtakes the queue during an expiry"},
	lastHolderBarges:    {"an Acquire does not overtake the queue, not even the last holder's"},
	releaseWakesAll: {
		"no caller overtakes the queue during a release",
		"an Acquire does not overtake the queue, not even the last holder's",
	},
	expiryStrandsTheQueue: {"an expired lease passes to the head of the queue"},
	renewedIsHandedOver: {
		"a lease that is renewed is not handed over",
		"a resource has one unexpired holder at a time, handed over or not",
	},
	holderWaitsForItself: {"the holder does not wait for its own resource"},
	secondGrantRefused:   {"a lease that was handed over is granted to its holder again"},
	namesUnchecked:       {"a Wait with a name that is not valid in a token is refused"},

	contextIgnored: {"a Wait under a cancelled context returns soon and grants nothing that lasts"},
	leavingKeepsThePlace: {
		"a waiter whose context ends leaves the queue, and its error has the cause and the holder",
		"a waiter that left can join the queue again",
	},
	leavingKeepsTheGrant: {"a waiter that leaves during its hand-off passes the resource to the next waiter"},
	leavingFreesWhatever: {
		"a waiter whose context ends leaves the queue, and its error has the cause and the holder",
		"a resource has one unexpired holder at a time, handed over or not",
	},
	leavingHasNoCause:  {"a waiter whose context ends leaves the queue, and its error has the cause and the holder"},
	leavingNamesNone:   {"a waiter whose context ends leaves the queue, and its error has the cause and the holder"},
	leavingNamesItself: {"a waiter whose context ends leaves the queue, and its error has the cause and the holder"},

	handoffKeepsTheNumber: {"a release hands the resource to the head of the queue, under a greater number"},
	handoffIsOnlySent:     {"a release hands the resource to the head of the queue, under a greater number"},
	handoffServesTwo: {
		"a release hands the resource to the head of the queue, under a greater number",
		"waiters in a crowd are served equally often, one at a time, under rising numbers",
	},
	handoffForgetsTheRecover: {"a hand-off after a Recover has a greater number"},
	handoffIsBrief:           {"a lease that was handed over can be renewed for the whole ttl"},
	handoffPromisesTheTTL:    {"no other holder is granted the resource before the Until of a hand-off"},
	untilAtReceipt:           {"no other holder is granted the resource before the Until of a hand-off"},
}

const (
	batchFailsAsOne      flaw = "one that is lost fails the whole batch"
	batchEndsAtAFailure  flaw = "the renewals after one that is lost have no result"
	batchIsShifted       flaw = "the results of a batch are one place off"
	batchHasOneTTL       flaw = "a batch is renewed for the ttl of its first"
	batchAcquires        flaw = "a batch acquires what is free"
	batchIgnoresHolder   flaw = "a batch does not check the holder"
	batchIsWrittenLater  flaw = "a batch that was cut off is written to later"
	batchCancelledIsLost flaw = "a batch that was cut off counts as lost"
	emptyBatchHangs      flaw = "an empty batch waits for an answer"

	recoverIsIgnored       flaw = "Recover does nothing"
	recoverIsOneShort      flaw = "the number raised to is granted next"
	recoverIsOfTheLease    flaw = "the recovered number goes with the lease"
	recoverLowers          flaw = "Recover lowers"
	recoverSaysNothing     flaw = "Recover returns nil for what was granted already"
	recoverInTwoSteps      flaw = "Recover compares and writes in two steps"
	recoverIsUnbounded     flaw = "Recover has no bound"
	recoverBoundTooLow     flaw = "the bound of Recover is a tenth of what it should be"
	recoverReleases        flaw = "Recover ends the lease"
	recoverTakes           flaw = "Recover takes the resource"
	recoverCancelledIsLost flaw = "a Recover that was cut off is ErrLost"
	refusedRecoverRaises   flaw = "a number too far ahead is refused, and raised to all the same"
)

var batchMutants = map[flaw][]string{
	batchFailsAsOne:     {"each renewal of a batch has a result of its own"},
	batchEndsAtAFailure: {"each renewal of a batch has a result of its own"},
	batchIsShifted: {
		"each renewal of a batch has a result of its own",
		"Until of a batch counts each ttl on the monotonic clock",
	},
	batchHasOneTTL:         {"Until of a batch counts each ttl on the monotonic clock"},
	batchAcquires:          {"a batch never acquires what has expired, was released or was never held"},
	batchIgnoresHolder:     {"a batch never takes from a successor", "holders are compared whole in a batch"},
	holdersByPrefix:        {"holders are compared whole in a batch"},
	renewalChangesNothing:  {"leases renewed in a batch outlast their first ttl"},
	renewalPromisesTooMuch: {"no other holder is granted the resource before the Until of a batch"},
	emptyBatchHangs:        {"an empty batch returns soon"},

	batchIsWrittenLater:  {cutOff},
	batchCancelledIsLost: {cutOff},
	contextIgnored:       {cutOff},
}

const cutOff = "a batch under a cancelled context has an error for each, none of which is ErrLost"

var lossMutants = map[flaw][]string{
	numbersInSeconds: {"two grants differ, although the issuer's data was lost in between: numbers rise"},
}

var recoverMutants = map[flaw][]string{
	recoverIsIgnored:     {"a grant after a Recover has a greater number"},
	recoverIsOneShort:    {"a grant after a Recover has a greater number"},
	recoverIsOfTheLease:  {"a recovered number survives a release and an expiry"},
	expiryForgetsNumber:  {"a recovered number survives a release and an expiry"},
	releaseForgetsNumber: {"a recovered number survives a release and an expiry"},
	recoverLowers:        {"a Recover to a number that was granted already is ErrLost and lowers nothing"},
	recoverSaysNothing:   {"a Recover to a number that was granted already is ErrLost and lowers nothing"},
	recoverIsUnbounded:   {"a Recover to more than a day ahead of the clock is ErrTooFarAhead and raises nothing"},
	refusedRecoverRaises: {"a Recover to more than a day ahead of the clock is ErrTooFarAhead and raises nothing"},
	recoverBoundTooLow:   {"a Recover to half a day ahead of the clock is accepted"},
	recoverReleases:      {"a Recover leaves the lease as it is"},
	recoverTakes:         {"a Recover leaves the lease as it is"},
	recoverInTwoSteps: {
		"of several Recovers at once the greatest number is kept",
		"numbers rise in the order of the grants, during Recovers too",
	},
	contextIgnored:         {"a Recover under a cancelled context returns soon, and its error is not ErrLost"},
	recoverCancelledIsLost: {"a Recover under a cancelled context returns soon, and its error is not ErrLost"},
}
