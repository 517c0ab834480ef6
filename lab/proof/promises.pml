/*
 * The promises. Each promise is a variable, so that pan prints its name if it is
 * broken: "assertion violated in_order". Hidden variables are not part of the
 * state. With -DBREAKS=name only that promise is checked: the promise that a
 * broken variant must break.
 */
#ifdef BREAKS
#define PROMISE(name, holds) name = (holds); assert(BREAKS); name = 1
#else
#define PROMISE(name, holds) name = (holds); assert(name)
#endif

bool in_order = 1;                 /* no write is accepted below one that was accepted before */
bool one_holder = 1;               /* a number is accepted from one holder only */
bool no_update_lost = 1;           /* each applied write was computed from the newest value */
bool applied_once = 1;             /* no write, and no unit of work, is applied twice */
bool acknowledged_is_applied = 1;
bool refused_leaves_no_trace = 1;
bool refused_for_a_reason = 1;     /* a greater number was admitted, or the same number of another holder */
bool marks_never_fall = 1;         /* also when the floor replaces a mark */
bool numbers_rise = 1;             /* from grant to grant, while the issuer has its memory */
bool one_owner = 1;                /* no holder has the lock while another holder's lease is valid */
bool raised_what_forgot = 1;       /* Recover answers "raised" only if a number was missing from memory */

#ifdef FAULTS
/* Recovery gives progress. If an issuer has forgotten, and its numbers are so far
 * below the mark that counting does not reach it, a holder that keeps trying is
 * admitted nevertheless. */
ltl a_holder_is_served { [] <> served }
#endif

/*
 * The events of the model. -DNEVER=name claims that the event never happens. The
 * search must refute each of these claims: a promise about events that never
 * happen proves nothing.
 */
#ifdef NEVER
#define HAPPENS(name) name = 1; assert(!NEVER); name = 0
bool was_raised;
#else
#define HAPPENS(name) skip
#endif

bool stale_claim_refused;
bool stale_write_refused;
bool late_write_refused;           /* after its holder had given up waiting for the answer */
bool late_write_applied;           /* likewise, if no newer holder had come */
bool late_copy_after_successor;    /* a copy of what was applied arrives after a successor's write */
bool collision_refused;
bool refused_by_the_floor;
bool admitted_above_the_floor;     /* and a new mark is made */
bool recovered;                       /* refused, raised, and a later claim admitted */
bool old_owner_refused;            /* a stale replica has the lock with an older holder */
bool lost_though_it_lives;         /* Recover answers "lost" for a valid lease: another holder has recovered the issuer */
