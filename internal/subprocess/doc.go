// Package subprocess starts a child process, exchanges messages with it, stops and
// continues it, and ends it. All simulations and stress rigs with real processes use it.
//
//	parent                                 child
//	Open(Self(name, role), setup) ───▶     Serve(roles): Receive(&setup)
//	                              ◀───     Report(ready)
//	Send(order)                   ───▶     Each(order), UntilClosed
//	Next(ctx), Listen             ◀───     Report(event)
//	Suspend, Resume               ◀──▶     Pause stops the child from the inside
//	Stop, Stands, Continue                 is stopped from the outside (WhileStopped)
//	World.Stands, World.Drain              StopWorld stops Go, not the process
//	CloseInput, Kill, End                  is gone
//
// [Round] is the experiment itself: A is paused, B acts, A resumes.
//
// # What it promises
//
// A child ends with its parent, even if it is stopped (Linux; for other systems see
// attributes). The child's own children do not. All whole lines that the child reported
// before its end are received. The error for a child that has ended has its exit status
// and the end of its standard error.
//
// # What it does not do
//
// Calls without a context have no time limit: Send blocks if the pipe is full and the
// child does not read, for example because it is stopped.
package subprocess
