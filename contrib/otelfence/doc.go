// Package otelfence turns the hooks of a [lock.Locker] and of guards into
// OpenTelemetry metrics and spans. It is a module of its own, so that programs
// without it do not depend on OpenTelemetry.
//
// # What it is
//
// [Hooks] makes a [lock.Hooks] that counts and times a Locker's leases;
// [GuardHooks] makes a [guard.Hooks] that counts what guards refuse. The
// instruments, each with its attributes in braces:
//
//	fencepost.lock.wait          histogram  s              {outcome: acquired, not_acquired}
//	fencepost.lock.hold          histogram  s              {outcome: released, lost}
//	fencepost.lock.acquired      counter    {acquisition}
//	fencepost.lock.not_acquired  counter    {acquisition}  {reason: held, wait_timeout, cancelled, error}
//	fencepost.lock.renewed       counter    {renewal}
//	fencepost.lock.renew_failed  counter    {renewal}
//	fencepost.lock.lost          counter    {lease}
//	fencepost.lock.released      counter    {lease}        {outcome: confirmed, unconfirmed}
//	fencepost.lock.refused       counter    {token}
//	fencepost.lock.collided      counter    {token}
//	fencepost.lock.recovered     counter    {issuer}
//	fencepost.guard.refused      counter    {write}        {reason: stale, collision, missing, released, invalid, signature}
//	fencepost.guard.reported     counter    {write}        the same, of guards in report-only mode
//
// Their keys are fencepost.outcome and fencepost.reason.
//
// # Spans
//
// If the context has a sampled span, a wait and a hold become child spans of it:
// fencepost.lock.wait, and fencepost.lock.hold, which has the status Error if the lease
// was lost. They are made when the wait or hold ends, so that no state is kept in
// between. The spans of the work are therefore their siblings and not their children. The
// following are events of the context's span: fencepost.lock.renew_failed, refused,
// collided and recovered, fencepost.guard.refused and reported. Spans and events have the
// resource, the number and the holder.
//
// # What it promises
//
// No metric has the resource, the number or the holder as an attribute. The number of
// series is as in the table, times the number of kinds of resources if [Config.Kinds] is
// set. The hooks take no lock except the provider's.
//
// # What it does not do
//
// It starts no exporter and sets nothing global. It logs two events that are also logged
// without it, since a counter cannot describe them: a write that a report-only guard let
// pass, and an issuer that had forgotten its numbers. It counts failed renewals
// (renew_failed) and does not log them. To log them instead, set the field RenewFailed to
// nil.
//
// # Use
//
//	hooks, err := otelfence.Hooks(otelfence.Config{})
//	locker := &lock.Locker{Issuer: iss, Claim: fence.Admit, Hooks: hooks}
//
// # Where next
//
// docs/observing.md lists what to watch, and which of it should raise an alert.
package otelfence

// The files of this package, in reading order:
//
//	hooks.go        a Locker's hooks: what each event counts, times, and adds to a span; the
//	                names of spans and events; what is logged
//	guard.go        a guard's hooks: refused and reported writes; the resource of a refusal;
//	                what is logged
//	instruments.go  the settings; the names and units of the metrics; the boundaries of the
//	                histograms
//	labels.go       the attributes of metrics (outcome, reason, kind); why an acquisition
//	                failed; why a guard refused
//	span.go         spans that are made at the end of a wait or a hold; events; the attributes
//	                of both; metrics under a context that has ended
