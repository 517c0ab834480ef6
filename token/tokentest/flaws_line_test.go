package tokentest_test

const (
	lineFromItsEnd       flaw = "the line is served from its end"
	lineIsACrowd         flaw = "the line is served in any order"
	lineIsSortedByName   flaw = "the line is sorted by name"
	waitNeedsARelease    flaw = "Wait is granted nothing but what is released"
	waitBarges           flaw = "Wait takes what is free, whoever waits"
	acquireBarges        flaw = "Acquire takes what is free, whoever waits"
	lastHolderBarges     flaw = "the last holder takes back what it released"
	releaseWakesTheLine  flaw = "a release frees, and the line asks again"
	expiryStrandsTheLine flaw = "only a release hands over"
	renewedIsHandedOver  flaw = "the line is served when the first ttl has passed, renewed or not"
	holderWaitsForItself flaw = "the holder stands in line behind itself"

	leavingKeepsThePlace flaw = "who leaves stays in line"
	leavingKeepsTheGrant flaw = "who leaves keeps what it was handed in that moment"
	leavingFreesWhatever flaw = "who leaves frees the resource, whoever holds it"
	leavingSaysNoCause   flaw = "who leaves is told that its context ended, but not why"
	leavingNamesNobody   flaw = "who leaves is not told who has the resource"
	leavingNamesItself   flaw = "who leaves is told the wrong holder"

	handOverKeepsTheNumber  flaw = "a hand-over mints no number"
	handOverForgetsTheRaise flaw = "a hand-over mints from the clock alone"
	handOverIsBrief         flaw = "a hand-over has expired when it is heard of"
	handOverPromisesTheTTL  flaw = "Until of a hand-over is that of the whole ttl"
	handOverIsOnlyTold      flaw = "a hand-over is told, and not written"
	handOverServesTwo       flaw = "one release serves two"
	untilAtReceipt          flaw = "Until of a hand-over is counted from its receipt"
)

var lineMutants = map[flaw][]string{
	lineFromItsEnd: {
		"waiters are served in the order in which they asked",
		"waiters in a crowd are served equally often, one at a time, under rising numbers",
	},
	lineIsACrowd:       {"waiters are served in the order in which they asked"},
	lineIsSortedByName: {"waiters in a crowd are served equally often, one at a time, under rising numbers"},
	waitNeedsARelease:  {"a Wait for a free resource is granted at once"},
	waitBarges:         {"nobody passes the line in the moment of an expiry"},
	acquireBarges:      {"nobody passes the line in the moment of an expiry"},
	lastHolderBarges:   {"who asks by Acquire does not pass the line, were it the last holder"},
	releaseWakesTheLine: {
		"nobody passes the line in the moment of a release",
		"who asks by Acquire does not pass the line, were it the last holder",
	},
	expiryStrandsTheLine: {"an expired lease passes to the head of the line"},
	renewedIsHandedOver: {
		"a lease that is renewed is not handed over",
		"a resource has one unexpired holder at a time, handed over or not",
	},
	holderWaitsForItself: {"the holder need not stand in line for its own resource"},
	secondGrantRefused:   {"what was handed over is its holder's, asked again"},
	namesUnchecked:       {"what no token can carry stands in no line"},

	contextIgnored: {"a Wait under a cancelled context returns soon and grants nothing that lasts"},
	leavingKeepsThePlace: {
		"a waiter whose context ends leaves the line, and says why and who has the resource",
		"a waiter who left can stand in line again",
	},
	leavingKeepsTheGrant: {"a waiter who leaves in the moment of the hand-over passes it on"},
	leavingFreesWhatever: {
		"a waiter whose context ends leaves the line, and says why and who has the resource",
		"a resource has one unexpired holder at a time, handed over or not",
	},
	leavingSaysNoCause: {"a waiter whose context ends leaves the line, and says why and who has the resource"},
	leavingNamesNobody: {"a waiter whose context ends leaves the line, and says why and who has the resource"},
	leavingNamesItself: {"a waiter whose context ends leaves the line, and says why and who has the resource"},

	handOverKeepsTheNumber: {"a release hands the resource to the head of the line, under a greater number"},
	handOverIsOnlyTold:     {"a release hands the resource to the head of the line, under a greater number"},
	handOverServesTwo: {
		"a release hands the resource to the head of the line, under a greater number",
		"waiters in a crowd are served equally often, one at a time, under rising numbers",
	},
	handOverForgetsTheRaise: {"a hand-over after a Raise has a greater number"},
	handOverIsBrief:         {"what was handed over can be renewed for the whole ttl"},
	handOverPromisesTheTTL:  {"nobody else is granted the resource before the Until of a hand-over"},
	untilAtReceipt:          {"nobody else is granted the resource before the Until of a hand-over"},
}
