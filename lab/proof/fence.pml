/*
 * A model of Fencepost, which SPIN searches exhaustively: an issuer, three
 * holders, a network and a guard. docs/guarantees.md lists what it proves and
 * what it leaves out. proof_test.go runs it. The terms are those of
 * docs/design.md.
 *
 * There is one resource: resources are independent. There is no time: a lease
 * ends at any moment, and a process that is not scheduled is paused. A holder
 * detects the end of its lease only by a request, which is the worst case.
 *
 * These are the possible events, and how often they may happen; -D changes it.
 */
#ifndef GRANTS
#define GRANTS 4   /* acquisitions in total, by three holders at a time */
#endif
#ifndef WRITES
#define WRITES 1   /* writes under one token, each with a read before it */
#endif
#ifndef FORGETS
#define FORGETS 0  /* the issuer restarts without its memory, or a stale replica takes its place */
#endif
#ifndef JUMPS
#define JUMPS 0    /* the clock was ahead of the counter: a number is skipped */
#endif
#ifndef PRUNES
#define PRUNES 0   /* the mark is pruned */
#endif
#ifndef COPIES
#define COPIES 0   /* the network delivers a request twice */
#endif

#include "promises.pml"

/* The state of the issuer. */
byte counter;      /* the last number */
byte owner;        /* the holder that has the lock, or 0 */

/* The durable state of the guard. */
byte mark;         /* its number, or 0 if there is no mark */
byte mark_holder;
byte floor;        /* the least number that is admitted without a mark */

/* Requests from holders to the guard: net[p] is holder p's own, net[LATE] is a
 * request that its holder does not wait for any more, or a copy of a request.
 * It is delivered at any time, after any other request, or never. */
#define NOTHING 0
#define CLAIM 1    /* with -DMINT: a request to mint */
#define WRITE 2
#define ANSWERED 3 /* carried out or refused; the answer may be under way */
#define DRAWN 4    /* this and the next in broken variants only */
#define CHECKED 5
#define LOOKED 6

typedef Request {
	byte kind;
	byte number;   /* the token: number and holder */
	byte holder;
	byte nth;      /* the number of the write of this holder, from 1 */
	bool fresh     /* no write since the read from which this write was computed */
}
#define LATE 3
Request net[4];
#define ON_ITS_WAY(r) (net[r].kind == CLAIM || net[r].kind == WRITE)

inline remove(r) {
	net[r].kind = NOTHING; net[r].number = 0; net[r].holder = 0; net[r].nth = 0; net[r].fresh = false
}

/* overtake makes a request late: the next one may arrive before it. */
inline overtake(r) {
	net[LATE].kind = net[r].kind; net[LATE].number = net[r].number; net[LATE].holder = net[r].holder;
	net[LATE].nth = net[r].nth; net[LATE].fresh = net[r].fresh
}

#define ADMITTED 255
byte answer[3];    /* to holder p: 0 for none yet, ADMITTED, or the number that refused it */

/* The resource. The model has no value, only whether each write was computed
 * from the newest value: then the value has all writes, otherwise one is lost. */
inline read(p) { net[p].fresh = true }
inline overwrite() {
	net[0].fresh = false; net[1].fresh = false; net[2].fresh = false; net[LATE].fresh = false
}
#if COPIES
byte applied[GRANTS + 1]; /* the number of writes of each holder */
#endif

/* State for the promises only. */
byte born;         /* the last holder's id: it is the id of an acquisition, not of a process */
byte granted;      /* the number of the last grant that the issuer remembers */
byte living;       /* the holder whose lease is valid */
byte last;         /* the number of the last accepted write */
byte last_holder;  /* its holder */

/* How often each event may still happen. */
byte forgets = FORGETS, jumps = JUMPS, prunes = PRUNES, copies = COPIES;

#ifdef FAULTS
/* For the search of cycles: after that many failures no process fails. */
byte faults = FAULTS;
bool served;       /* a claim was admitted since the issuer last forgot; then no holder needs to acquire */
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
		mark = 2; mark_holder = GRANTS + 1; /* from before the issuer forgot */
#endif
		run Holder(0); run Holder(1); run Holder(2);
		run Guard();
		run Issuer()
	}
}
