/*
 * What is promised. Each promise is a variable, so that pan calls it by its
 * name where it is broken: "assertion violated in_order". Hidden variables are
 * no part of the state. With -DBREAKS=name only that promise is looked at: the
 * one that a broken variant is to break.
 */
#ifdef BREAKS
#define PROMISE(name, holds) name = (holds); assert(BREAKS); name = 1
#else
#define PROMISE(name, holds) name = (holds); assert(name)
#endif

bool in_order = 1;                 /* no write is accepted below one that was accepted before */
bool one_holder = 1;               /* a number is accepted from one holder only */
bool no_update_lost = 1;           /* each write that is applied was computed from the newest */
bool applied_once = 1;             /* no write, and no unit of work, is applied twice */
bool acknowledged_is_applied = 1;
bool refused_leaves_no_trace = 1;
bool refused_for_a_reason = 1;     /* a greater number was there, or the same from another holder */
bool marks_never_fall = 1;         /* nor does what judges fall when the floor takes a mark's place */
bool numbers_rise = 1;             /* from grant to grant, while the issuer has its memory */
bool one_owner = 1;                /* nobody has the lock while another's lease lives */
bool raised_what_forgot = 1;       /* Raise says "raised" only where a number was missing from memory */

#ifdef FAULTS
/* Healing gives progress. An issuer has forgotten, and its numbers are so far
 * below the mark that counting does not get there: somebody who keeps trying is
 * admitted all the same. */
ltl somebody_is_served { [] <> served }
#endif

/*
 * What happens in the model. With -DNEVER=name it claims that name never does,
 * and each of these claims must be refuted: where nothing happens, anything can
 * be promised.
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
bool late_write_applied;           /* likewise, where nobody newer had come */
bool late_copy_after_successor;    /* a copy of what was applied arrives after a successor's write */
bool collision_refused;
bool refused_by_the_floor;
bool admitted_above_the_floor;     /* the mark is made anew */
bool healed;                       /* refused, raised, and a later claim admitted */
bool old_owner_refused;            /* a stale replica has given the lock back to an older holder */
bool lost_though_it_lives;         /* Raise says "lost" of a lease that lives: somebody else has healed the issuer */
