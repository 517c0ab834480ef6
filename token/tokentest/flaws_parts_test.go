package tokentest_test

const (
	batchFailsAsOne      flaw = "one that is lost fails the whole batch"
	batchEndsAtAFailure  flaw = "what stands behind one that is lost is not answered"
	batchIsShifted       flaw = "the answers of a batch are one place off"
	batchHasOneTTL       flaw = "a batch is renewed for the ttl of its first"
	batchAcquires        flaw = "a batch acquires what is free"
	batchIgnoresHolder   flaw = "a batch does not check the holder"
	batchIsWrittenLater  flaw = "a batch that was cut off is answered later"
	batchCancelledIsLost flaw = "a batch that was cut off counts as lost"
	emptyBatchHangs      flaw = "a batch of none waits for an answer"

	raiseIsIgnored       flaw = "Raise does nothing"
	raiseIsOneShort      flaw = "the number raised to is granted next"
	raiseIsOfTheLease    flaw = "what was raised goes with the lease"
	raiseLowers          flaw = "Raise lowers"
	raiseSaysNothing     flaw = "Raise says nothing of what was granted already"
	raiseInTwoSteps      flaw = "Raise compares and writes in two steps"
	raiseIsUnbounded     flaw = "Raise has no bound"
	raiseBoundTooLow     flaw = "the bound of Raise is a tenth of what it should be"
	raiseReleases        flaw = "Raise ends the lease"
	raiseTakes           flaw = "Raise takes the resource"
	raiseCancelledIsLost flaw = "a Raise that was cut off says that the lease was lost"
	poisonRaises         flaw = "poison is refused, and raised to all the same"
)

var batchMutants = map[flaw][]string{
	batchFailsAsOne:     {"each renewal of a batch has an answer of its own"},
	batchEndsAtAFailure: {"each renewal of a batch has an answer of its own"},
	batchIsShifted: {
		"each renewal of a batch has an answer of its own",
		"Until of a batch counts each ttl on the monotonic clock",
	},
	batchHasOneTTL:         {"Until of a batch counts each ttl on the monotonic clock"},
	batchAcquires:          {"a batch never acquires what has expired, was released or was never held"},
	batchIgnoresHolder:     {"a batch never takes from a successor", "holders are compared whole in a batch"},
	holdersByPrefix:        {"holders are compared whole in a batch"},
	renewalChangesNothing:  {"leases renewed in a batch outlast their first ttl"},
	renewalPromisesTooMuch: {"nobody else is granted the resource before the Until of a batch"},
	emptyBatchHangs:        {"a batch of none is over soon"},

	batchIsWrittenLater:  {cutOff},
	batchCancelledIsLost: {cutOff},
	contextIgnored:       {cutOff},
}

const cutOff = "a batch under a cancelled context has an error for each, none of which says that the lease is lost"

var raiseMutants = map[flaw][]string{
	raiseIsIgnored:       {"what is granted after a Raise has a greater number"},
	raiseIsOneShort:      {"what is granted after a Raise has a greater number"},
	raiseIsOfTheLease:    {"a raised number survives a release and an expiry"},
	expiryForgetsNumber:  {"a raised number survives a release and an expiry"},
	releaseForgetsNumber: {"a raised number survives a release and an expiry"},
	raiseLowers:          {"a Raise to what was granted already is ErrLost and lowers nothing"},
	raiseSaysNothing:     {"a Raise to what was granted already is ErrLost and lowers nothing"},
	raiseIsUnbounded:     {"a Raise to more than a day ahead of the clock is ErrPoisoned and raises nothing"},
	poisonRaises:         {"a Raise to more than a day ahead of the clock is ErrPoisoned and raises nothing"},
	raiseBoundTooLow:     {"a Raise to half a day ahead of the clock is no poison"},
	raiseReleases:        {"a Raise does not touch who holds"},
	raiseTakes:           {"a Raise does not touch who holds"},
	raiseInTwoSteps: {
		"of Raises at once the greatest is kept",
		"numbers rise in the order of the grants, whoever raises meanwhile",
	},
	contextIgnored:       {"a Raise under a cancelled context returns soon and does not say that the lease was lost"},
	raiseCancelledIsLost: {"a Raise under a cancelled context returns soon and does not say that the lease was lost"},
}
