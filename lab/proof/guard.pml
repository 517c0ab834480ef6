/*
 * The guard and its resource: sqlguard, redisguard, guard.Memory. To admit is to
 * compare a token with the mark and to raise the mark, in one transaction with
 * the write.
 */

/* judge is guard.Mark.Admits, or the floor if there is no mark. */
inline judge() {
	verdict = ADMITTED;
	if
#if defined(NO_GUARD)
	:: true
#elif defined(EQUALITY)
	:: mark == 0 || net[r].number == mark
#elif defined(LESS)
	:: net[r].number > mark && net[r].number >= floor
#elif defined(LESS_OR_EQUAL)
	:: net[r].number >= mark && (mark != 0 || net[r].number >= floor)
#else
	:: mark != 0 && (net[r].number > mark || net[r].number == mark && net[r].holder == mark_holder)
	:: mark == 0 && net[r].number >= floor
#endif
	:: else ->
		verdict = (mark != 0 -> mark : floor);
		printf("refused: holder %d, #%d by #%d\n", net[r].holder, net[r].number, verdict);
		PROMISE(refused_for_a_reason, verdict > net[r].number || verdict == net[r].number && mark_holder != net[r].holder);
		refusal_happens()
	fi
}

inline refusal_happens() {
	if
	:: mark == 0 -> HAPPENS(refused_by_the_floor)
	:: mark == net[r].number -> HAPPENS(collision_refused)
	:: mark > net[r].number && net[r].kind == CLAIM -> HAPPENS(stale_claim_refused)
	:: mark > net[r].number && net[r].kind == WRITE && r != LATE -> HAPPENS(stale_write_refused)
	:: mark > net[r].number && net[r].kind == WRITE && r == LATE -> HAPPENS(late_write_refused)
	:: else
	fi;
	if
	:: living == net[r].holder && living < mark_holder -> HAPPENS(old_owner_refused)
	:: else
	fi
}

inline raise_mark(r) {
#ifndef NO_GUARD
	PROMISE(marks_never_fall, net[r].number >= (mark != 0 -> mark : floor));
	if
	:: mark == 0 && floor != 0 -> HAPPENS(admitted_above_the_floor)
	:: else
	fi;
	mark = net[r].number; mark_holder = net[r].holder;
#endif
	if
	:: net[r].kind == CLAIM -> claimed()
	:: else
	fi
}

inline claimed() {
#ifdef FAULTS
	served = true;
#endif
#ifdef NEVER
	if
	:: was_raised -> HAPPENS(recovered)
	:: else
	fi;
#endif
	printf("claimed: mark #%d\n", mark)
}

inline apply() {
	printf("written: holder %d, #%d\n", net[r].holder, net[r].number);
	PROMISE(in_order, net[r].number >= last);
	PROMISE(one_holder, net[r].number != last || net[r].holder == last_holder);
	PROMISE(no_update_lost, net[r].fresh);
#if COPIES
	PROMISE(applied_once, net[r].nth == applied[net[r].holder] + 1);
	applied[net[r].holder] = net[r].nth;
#endif
	if
	:: r == LATE -> HAPPENS(late_write_applied)
	:: else
	fi;
	last = net[r].number; last_holder = net[r].holder;
	overwrite()
}

inline tell() {
	if
	:: r == LATE -> remove(LATE) /* no holder waits for the answer */
	:: else ->
		answer[r] = verdict; net[r].kind = ANSWERED;
#ifndef READ_BEFORE_CLAIM
		net[r].fresh = false
#endif
	fi
}

/* A copy of a write has the same token, so the mark admits it. If requests can
 * arrive twice, the resource must remember those that it has applied, and check
 * that first. This is the application's part. */
#define APPLIED(r) (net[r].kind == WRITE && net[r].nth <= applied[net[r].holder])
#if !COPIES || defined(APPLIED_TWICE)
#define KNOWN_FIRST(r) false
#define KNOWN_THEN(r) false
#elif defined(MARK_BEFORE_MEMORY)
#define KNOWN_FIRST(r) false
#define KNOWN_THEN(r) APPLIED(r)
#else
#define KNOWN_FIRST(r) APPLIED(r)
#define KNOWN_THEN(r) false
#endif

/* carry_out is one transaction. */
inline carry_out() {
#ifdef MINT
	if
	:: net[r].kind == CLAIM -> net[r].number = (mark != 0 -> mark + 1 : (floor != 0 -> floor : 1))
	:: else
	fi;
#endif
	if
	:: KNOWN_FIRST(r) ->
		verdict = ADMITTED;
		if
		:: last > net[r].number -> HAPPENS(late_copy_after_successor)
		:: else
		fi
	:: else ->
		judge();
		if
		:: verdict == ADMITTED && !KNOWN_THEN(r) ->
			raise_mark(r);
			if
			:: net[r].kind == WRITE -> write()
			:: else
			fi
		:: else
		fi
	fi;
	if
	:: net[r].kind == CHECKED
	:: else -> tell()
	fi
}

inline write() {
#if defined(CHECK_THEN_WRITE)
	net[r].kind = CHECKED
#elif defined(ANSWER_BEFORE_COMMIT)
	skip /* the server crashes */
#else
	apply()
#endif
}

/* prune removes a mark below a cutoff, and raises the floor to the cutoff. */
inline prune() {
#ifndef PRUNE_WITHOUT_FLOOR
	if
	:: floor = mark + 1
	:: floor = mark + 2
	fi;
#ifdef FLOOR_AT_THE_MARK
	floor = mark;
#endif
#endif
	printf("pruned: #%d, and the floor is #%d\n", mark, floor);
	PROMISE(marks_never_fall, floor > mark);
	mark = 0; mark_holder = 0
}

/* Guard delivers requests and carries them out, one transaction at a time. */
proctype Guard() {
	byte r, verdict;
end:
	do
	:: atomic {
		if
		:: ON_ITS_WAY(0) -> r = 0
		:: ON_ITS_WAY(1) -> r = 1
		:: ON_ITS_WAY(2) -> r = 2
		:: ON_ITS_WAY(LATE) -> r = LATE
		fi;
		d_step { carry_out(); r = 0; verdict = 0 }
	   }
	:: atomic { ON_ITS_WAY(LATE) -> remove(LATE) } /* lost; other requests are lost when their holders leave */
	:: atomic { prunes > 0 && mark != 0 -> prunes--; prune() }
#ifdef FORGOTTEN_MARK
	:: atomic { mark != 0 -> mark = 0; mark_holder = 0; printf("the mark is forgotten\n") }
#endif
#ifdef CHECK_THEN_WRITE
	:: atomic {
		if
		:: net[0].kind == CHECKED -> r = 0
		:: net[1].kind == CHECKED -> r = 1
		:: net[2].kind == CHECKED -> r = 2
		:: net[LATE].kind == CHECKED -> r = LATE
		fi;
		d_step { verdict = ADMITTED; apply(); tell(); r = 0; verdict = 0 }
	   }
#endif
	od
}
