/*
 * Fencepost as a model, which SPIN searches exhaustively: an issuer, three
 * holders, a network and a guard. docs/guarantees.md says what it proves and
 * what it leaves out; proof_test.go runs it. The words are those of
 * docs/design.md.
 *
 * There is one resource: resources have nothing to do with each other. There is
 * no time: a lease ends at any moment, and who is not scheduled is paused. No
 * holder notices that its lease has ended unless it asks, which is the worst
 * holder there is.
 *
 * This is what happens, and how often; -D changes it.
 */
#ifndef GRANTS
#define GRANTS 4   /* acquisitions in all, of three holders at a time */
#endif
#ifndef WRITES
#define WRITES 1   /* writes under one token, each with a read before it */
#endif
#ifndef FORGETS
#define FORGETS 0  /* the issuer restarts without its memory, or a stale replica takes its place */
#endif
#ifndef JUMPS
#define JUMPS 0    /* the clock was ahead of the counter: a number is passed over */
#endif
#ifndef PRUNES
#define PRUNES 0   /* the mark is pruned */
#endif
#ifndef COPIES
#define COPIES 0   /* the network delivers a request twice */
#endif

#include "promises.pml"

/* What the issuer knows. */
byte counter;      /* the last number */
byte owner;        /* the holder that has the lock, or 0 */

/* What the guard knows, durably. */
byte mark;         /* its number, or 0 where there is no mark */
byte mark_holder;
byte floor;        /* judges where there is no mark */

/* A request is what a holder has asked of the guard: net[p] holder p's own,
 * net[LATE] one that its holder does not wait for any more, or the copy of one.
 * It is delivered at any time, after any other, or never. */
#define NOTHING 0
#define CLAIM 1    /* with -DMINT: to mint */
#define WRITE 2
#define ANSWERED 3 /* carried out or refused; its holder may not have heard of it yet */
#define DRAWN 4    /* the last three in broken variants only */
#define CHECKED 5
#define LOOKED 6

typedef Request {
	byte kind;
	byte number;   /* the token: number and holder */
	byte holder;
	byte nth;      /* which write of this holder, from 1 */
	bool fresh     /* nothing was written since the read that the write was computed from */
}
#define LATE 3
Request net[4];
#define ON_ITS_WAY(r) (net[r].kind == CLAIM || net[r].kind == WRITE)

inline remove(r) {
	net[r].kind = NOTHING; net[r].number = 0; net[r].holder = 0; net[r].nth = 0; net[r].fresh = false
}

/* overtake leaves a request behind: the next one may arrive before it. */
inline overtake(r) {
	net[LATE].kind = net[r].kind; net[LATE].number = net[r].number; net[LATE].holder = net[r].holder;
	net[LATE].nth = net[r].nth; net[LATE].fresh = net[r].fresh
}

#define ADMITTED 255
byte answer[3];    /* to holder p: 0 for none yet, ADMITTED, or the number that refused it */

/* The resource. Its value is left out, only whether each write was computed
 * from the newest one: then the value counts all writes, and else one is lost. */
inline read(p) { net[p].fresh = true }
inline overwrite() {
	net[0].fresh = false; net[1].fresh = false; net[2].fresh = false; net[LATE].fresh = false
}
#if COPIES
byte applied[GRANTS + 1]; /* how many writes of each holder */
#endif

/* What only the promises know. */
byte born;         /* the last holder's id: it is the id of an acquisition, not of a process */
byte granted;      /* the number of the last grant that the issuer remembers */
byte living;       /* whose lease lives */
byte last;         /* the last write that was accepted: its number */
byte last_holder;  /* and its holder */

/* What is left of what may happen. */
byte forgets = FORGETS, jumps = JUMPS, prunes = PRUNES, copies = COPIES;

#ifdef FAULTS
/* For the search of cycles: after so many failures everybody is well. */
byte faults = FAULTS;
bool served;       /* since the issuer forgot last, a claim was admitted; then nobody has to acquire */
#define MAY_FAIL faults > 0
#define FAIL faults--
#define MAY_ACQUIRE (born < GRANTS && !served)
#else
#define MAY_ACQUIRE (born < GRANTS)
#define MAY_FAIL true
#define FAIL skip
#endif

#include "guard.pml"
#include "issuer.pml"
#include "holder.pml"

init {
	atomic {
#ifdef FAULTS
		mark = 2; mark_holder = GRANTS + 1; /* of before the issuer forgot */
#endif
		run Holder(0); run Holder(1); run Holder(2);
		run Guard();
		run Issuer()
	}
}
