// Package otelfence turns what a [token.Locker] and the guards tell their
// observers into OpenTelemetry metrics and spans. It is a module of its own, so
// that nobody who does not use it depends on OpenTelemetry.
//
// # What it is
//
// [Observer] makes a [token.Observer] that counts and times a Locker's leases;
// [GuardObserver] makes a [guard.Observer] that counts what guards refuse. The
// instruments, each with the attributes in braces:
//
//	fencepost.lock.wait        histogram  s              {outcome: acquired, gave_up}
//	fencepost.lock.hold        histogram  s              {outcome: released, lost}
//	fencepost.lock.acquired    counter    {acquisition}
//	fencepost.lock.gave_up     counter    {acquisition}  {reason: held, wait_ended, cancelled, error}
//	fencepost.lock.renewed     counter    {renewal}
//	fencepost.lock.endangered  counter    {renewal}
//	fencepost.lock.lost        counter    {lease}
//	fencepost.lock.released    counter    {lease}        {outcome: confirmed, unconfirmed}
//	fencepost.lock.refused     counter    {token}
//	fencepost.lock.collided    counter    {token}
//	fencepost.lock.healed      counter    {issuer}
//	fencepost.guard.refused    counter    {write}        {reason: stale, collision, missing, released, invalid, seal}
//	fencepost.guard.observed   counter    {write}        the same, of guards that only observe
//
// Their keys are fencepost.outcome and fencepost.reason.
//
// # Spans
//
// Under a sampled span, what is over becomes a child span of it: the waiting,
// fencepost.lock.wait, and the holding, fencepost.lock.hold, which is in error
// where the lease was lost. They are made in hindsight, when they end, so that
// nothing has to be kept in between, and spans of the work stand beside them and
// not below. What happens meanwhile is an event of the span that the context
// carries: fencepost.lock.endangered, refused, collided and healed,
// fencepost.guard.refused and observed. Spans and events name the resource, the
// number and the holder.
//
// # What it promises
//
// No metric has the resource, the number or the holder for an attribute: there
// are as many series as the table says, times the kinds of resources where
// [Config.Kinds] asks for those. The hooks take no lock but a provider's.
//
// # What it does not
//
// It starts no exporter and sets nothing global. It logs only what would be said
// without it too, and what no counter can say: which guard let a stale write
// pass, observing, and which issuer had forgotten. That a lease cannot be
// renewed is counted (endangered) and no longer logged; set the field Endangered
// to nil to have it the other way round.
//
//	observer, err := otelfence.Observer(otelfence.Config{})
//	locker := &token.Locker{Issuer: iss, Observer: observer}
//
// What to watch, and what to be woken by, is in docs/observing.md.
package otelfence
