/*
 * The issuer: memtoken, redistoken, redisquorum and pgtoken as a holder sees
 * them. Each request is one atomic step. A delayed request or answer is a holder
 * that is not scheduled. A lost request or answer is a holder that leaves.
 */

/* mint is part of the step that grants. A skipped number represents the clock,
 * or a grant whose answer was lost and that was requested again. */
inline mint(p) {
	counter++;
	if
	:: jumps > 0 -> jumps--; counter++
	:: true
	fi;
#ifdef FAULTS
	counter = (counter == mark -> mark - 1 : counter); /* too far below to reach the mark */
#endif
	net[p].number = counter
}

inline grant(p) {
	born++;
#ifdef HOLDER_OF_THE_PROCESS
	net[p].holder = p + 1;
	if
	:: owner == p + 1 -> net[p].number = granted /* repeated request: the same token */
	:: else -> mint(p)
	fi;
#else
	net[p].holder = born;
	PROMISE(one_owner, living == 0);
#if !defined(NUMBER_BEFORE_LOCK) && !defined(MINT)
	mint(p);
#endif
#if !defined(MINT) && !defined(FAULTS)
	PROMISE(numbers_rise, net[p].number > granted);
#endif
#endif
	granted = net[p].number;
	owner = net[p].holder;
	living = owner;
	printf("granted: holder %d, #%d\n", net[p].holder, net[p].number)
}

/* claim_in_grant is for pgtoken, whose issuer and guard share a database. It does
 * not wait for older writers, so it may grant without a claim. */
inline claim_in_grant(p) {
#ifdef CLAIMS_IN_GRANT
	if
	:: true
	:: counter = (counter > mark -> counter : mark + 1);
	   counter = (counter >= floor -> counter : floor);
	   net[p].number = counter; granted = counter;
	   raise_mark(p);
	   answer[p] = ADMITTED; net[p].kind = ANSWERED
	fi
#endif
	skip
}

/* release has an effect for the owner only. */
inline release(p) {
	if
#ifdef RELEASE_BY_ANYBODY
	:: owner != 0 -> owner = 0; living = (living == net[p].holder -> 0 : living)
#else
	:: owner == net[p].holder -> owner = 0; living = 0
#endif
	:: else
	fi
}

/* renew never acquires. It returns whether the lease is valid. */
inline renew(p) {
#ifdef RENEW_ACQUIRES
	owner = net[p].holder;
#endif
	PROMISE(one_owner, owner != net[p].holder || living == owner)
}

/* raise recovers an issuer that is below the mark. An issuer at the mark or above
 * has forgotten nothing, and answers that the lease was lost. */
#define FORGOT(told) (forgets < FORGETS || told <= floor)
inline raise(p, told) {
	if
#if defined(NO_RECOVERY) || defined(MINT)
	:: true
#elif defined(RAISE_LOWERS)
	:: true -> counter = told
#else
	:: counter < told ->
		counter = told;
		printf("raised: holder %d says #%d\n", net[p].holder, told);
#ifndef FAULTS
		PROMISE(raised_what_forgot, FORGOT(told));
#endif
#ifdef NEVER
		was_raised = true
#endif
	:: else ->
#ifdef RAISE_UNCLASSIFIED
		PROMISE(raised_what_forgot, FORGOT(told));
#endif
		if
		:: living == net[p].holder && living == born && told > net[p].number -> HAPPENS(lost_though_it_lives)
		:: else
		fi
#endif
	fi;
#ifdef RAISE_ACQUIRES
	owner = net[p].holder;
#endif
	PROMISE(one_owner, owner != net[p].holder || living == owner)
}

/* Issuer has the events of the issuer that no holder causes. */
proctype Issuer() {
end:
	do
	/* A lease ends. */
	:: atomic {
		owner != 0 ->
		if
#ifdef FAULTS
		:: owner != net[0].holder && owner != net[1].holder && owner != net[2].holder
#endif
		:: MAY_FAIL -> FAIL
		fi;
		printf("expired: holder %d\n", owner);
		owner = 0; living = 0
	   }
	/* The issuer forgets. Its counter continues from any number up to the last one:
	 * from its clock, or from the replica's number. The lock is free, unchanged, or
	 * with an earlier holder. */
	:: atomic {
		forgets > 0 -> forgets--; granted = 0;
#ifdef FAULTS
		served = false;
#endif
		do
		:: counter > 0 -> counter--
		:: true -> break
		od;
		if
		:: owner = 0
		:: owner != 0
		:: born > 1 -> owner = born - 1
		fi;
		living = owner;
		printf("forgotten: all above #%d; holder %d has the lock\n", counter, owner)
	   }
	od
}
