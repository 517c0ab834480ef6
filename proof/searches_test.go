package proof_test

import "strings"

// sound are the searches that must find nothing. Three holders are alive at a
// time in each; they differ in what may happen, because all of it at once takes
// minutes. The long ones are for `make proof`.
var sound = []struct {
	name, settings string
	long           bool
}{
	{"the issuer forgets", "FORGETS=1 WRITES=2", false},
	{"the mark is pruned", "PRUNES=1", false},
	{"the issuer forgets, its clock jumps, and the mark is pruned", "GRANTS=3 FORGETS=1 JUMPS=1 PRUNES=1", false},
	{"requests come twice", "GRANTS=3 COPIES=2 WRITES=2", false},
	{"the grant claims", "CLAIMS_IN_GRANT FORGETS=1", false},
	{"the guard mints, under any lock", "MINT", false},

	{"the issuer forgets, of five", "GRANTS=5 FORGETS=1", true},
	{"the issuer forgets twice", "FORGETS=2", true},
	{"the issuer forgets, and the mark is pruned, of four", "FORGETS=1 PRUNES=1", true},
	{"everything, of three", "GRANTS=3 FORGETS=1 JUMPS=1 PRUNES=1 COPIES=1", true},
	{"the grant claims, and the mark is pruned", "GRANTS=3 CLAIMS_IN_GRANT FORGETS=1 PRUNES=1 COPIES=1", true},
	{"the guard mints, and the mark is pruned", "MINT PRUNES=1", true},
}

// broken are the variants, each with the promise that it must break.
var broken = []struct{ variant, promise, settings string }{
	{"NO_GUARD", "in_order", ""},
	{"NO_GUARD", "no_update_lost", ""},
	{"NO_CLAIM", "no_update_lost", ""}, // the fence is on the write only
	{"READ_BEFORE_CLAIM", "no_update_lost", ""},
	{"EQUALITY", "refused_for_a_reason", ""},
	{"LESS", "refused_for_a_reason", ""},
	{"LESS_OR_EQUAL", "one_holder", "FORGETS=1"},
	{"CHECK_THEN_WRITE", "in_order", ""},
	{"CHECK_THEN_WRITE", "no_update_lost", ""},
	{"ANSWER_BEFORE_COMMIT", "acknowledged_is_applied", ""},
	{"FORGOTTEN_MARK", "in_order", ""},
	{"PRUNE_WITHOUT_FLOOR", "in_order", "PRUNES=1"},
	{"PRUNE_WITHOUT_FLOOR", "marks_never_fall", "PRUNES=1"},
	{"FLOOR_AT_THE_MARK", "one_holder", "GRANTS=3 PRUNES=1 FORGETS=1"},
	{"NUMBER_BEFORE_LOCK", "numbers_rise", ""},
	{"RELEASE_BY_ANYBODY", "one_owner", ""},
	{"RENEW_ACQUIRES", "one_owner", ""},
	{"RAISE_ACQUIRES", "one_owner", ""},
	{"RAISE_LOWERS", "numbers_rise", ""},
	{"RAISE_TWO_STEPS", "numbers_rise", "GRANTS=5 FORGETS=1 JUMPS=1"},
	{"RAISE_UNCLASSIFIED", "raised_what_forgot", ""},
	{"HEALING_RUNS_AGAIN", "applied_once", "GRANTS=3 WRITES=2"},
	{"HOLDER_OF_THE_PROCESS", "no_update_lost", ""},
	{"READ_AGAIN", "no_update_lost", ""},
	{"APPLIED_TWICE", "applied_once", "COPIES=1"},
	{"MARK_BEFORE_MEMORY", "refused_leaves_no_trace", "COPIES=1"},
}

// reached are the claims that something never happens, to be refuted.
var reached = []struct{ name, settings string }{
	{"stale_claim_refused", ""},
	{"stale_write_refused", ""},
	{"late_write_refused", ""},
	{"late_write_applied", ""},
	{"late_copy_after_successor", "COPIES=1"},
	{"collision_refused", "FORGETS=1"},
	{"refused_by_the_floor", "PRUNES=1"},
	{"admitted_above_the_floor", "PRUNES=1"},
	{"healed", "FORGETS=1"},
	{"old_owner_refused", "FORGETS=1"},
	{"lost_though_it_lives", "GRANTS=5 FORGETS=1"},
}

// define makes flags of settings.
func define(settings ...string) []string {
	var flags []string
	for _, setting := range strings.Fields(strings.Join(settings, " ")) {
		flags = append(flags, "-D"+setting)
	}
	return flags
}
