/*
 * A holder: lock.Locker, and the work that it runs. It acquires, claims, reads,
 * writes and leaves. It may be paused, give up or crash at any step. Then it
 * starts again under a new id.
 */

/* Idle holders are alike, so the first of them begins. */
#define IDLE(p) (net[p].kind == NOTHING && (p == 0 || net[0].kind != NOTHING) && (p < 2 || net[1].kind != NOTHING))
#ifdef NUMBER_BEFORE_LOCK
#define READY(p) (net[p].kind == DRAWN && owner == 0)
#elif defined(HOLDER_OF_THE_PROCESS)
#define READY(p) (IDLE(p) && (owner == 0 || owner == p + 1))
#else
#define READY(p) (IDLE(p) && owner == 0)
#endif
#define REFUSED(p) (net[p].kind == ANSWERED && answer[p] != ADMITTED)

/* A request is sent at the moment at which it is computed: a pause between the
 * two is the same as a delay of the request. So a read and its write are one step
 * here, and so are a grant and its claim. */
inline begin(p) {
	grant(p);
#ifdef NO_CLAIM
	net[p].nth = 1; read(p); net[p].kind = WRITE;
#else
	net[p].kind = CLAIM;
#endif
#ifdef READ_BEFORE_CLAIM
	read(p);
#endif
	claim_in_grant(p)
}

inline next(p) {
	net[p].nth++;
#ifndef READ_BEFORE_CLAIM
	read(p);
#endif
	net[p].kind = WRITE;
	answer[p] = 0
}

/* acknowledge is the answer to an applied write. */
inline acknowledge(p) {
	if
	:: net[p].nth > 0 ->
#if COPIES
		PROMISE(acknowledged_is_applied, applied[net[p].holder] >= net[p].nth);
#else
		PROMISE(acknowledged_is_applied, last >= net[p].number);
#endif
		PROMISE(applied_once, net[p].nth > did);
		did = net[p].nth
	:: else
	fi
}

inline refused(p) {
#if COPIES
	PROMISE(refused_leaves_no_trace, net[p].nth == 0 || applied[net[p].holder] < net[p].nth);
#endif
	raise(p, answer[p])
}

/* leave is the end of an acquisition, whatever its cause. After a refused claim
 * no work has run, and the next acquisition tries again; the model leaves out the
 * limit of two. Work that is refused later is not run again. */
inline leave(p) {
	if
	:: net[p].kind != ANSWERED && net[LATE].kind == NOTHING -> overtake(p) /* outcome unknown */
	:: true /* answered, or lost under way */
	fi;
	if
	:: release(p)
	:: true /* not released: the lease ends at some time */
	fi;
	remove(p); answer[p] = 0
}

proctype Holder(byte p) {
	byte did; /* acknowledged writes of this unit of work */
end:
	do
#ifdef NUMBER_BEFORE_LOCK
	:: atomic { IDLE(p) && MAY_ACQUIRE -> mint(p); net[p].kind = DRAWN }
#endif
	:: atomic { READY(p) && MAY_ACQUIRE -> begin(p) }
	:: atomic { answer[p] == ADMITTED && net[p].nth < WRITES -> acknowledge(p); next(p) }
	:: atomic { answer[p] == ADMITTED && net[p].nth == WRITES -> acknowledge(p); leave(p); did = 0 }
#ifdef RAISE_TWO_STEPS
	:: atomic { REFUSED(p) && counter < answer[p] -> net[p].kind = LOOKED }
	:: atomic { net[p].kind == LOOKED -> counter = answer[p]; leave(p); did = 0 }
#else
	:: atomic {
		REFUSED(p) -> refused(p); leave(p);
#ifndef RECOVERY_RUNS_AGAIN
		did = 0
#endif
	   }
#endif
	/* The holder gives up, crashes, or its answer is lost. If the outcome of a write
	 * is unknown, the holder leaves: the write may still be applied, and only a newer
	 * mark prevents that. */
	:: atomic { net[p].kind != NOTHING && MAY_FAIL -> FAIL; leave(p); did = 0 }
	/* The network, or a proxy, sends the request twice. */
	:: atomic { copies > 0 && ON_ITS_WAY(p) && net[LATE].kind == NOTHING -> copies--; overtake(p) }
#ifdef READ_AGAIN
	/* Without an answer the holder reads whether the write was applied, under the same token. */
	:: atomic { net[p].kind == WRITE && net[LATE].kind == NOTHING -> overtake(p); read(p) }
#endif
#ifndef FAULTS
	:: atomic { net[p].holder != 0 -> renew(p) }
#endif
	od
}
