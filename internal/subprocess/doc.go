// Package subprocess starts a child process, exchanges messages with it, stops and
// continues it, and ends it. All simulations and stress rigs with real processes use it.
//
//	parent                                 child
//	Open(Self(name, role), setup) ───▶     Serve(roles): Receive(&setup)
//	                              ◀───     Report(ready)
//	Send(order)                   ───▶     Each(order), UntilClosed
//	Next(ctx), Listen             ◀───     Report(event)
//	Suspend, Resume               ◀──▶     Pause stops the child from the inside
//	Stop, Stands, Continue                 is stopped from the outside
//	CloseInput, Kill, End                  is gone
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
//
// # The files, in reading order
//
//	process.go          the parent's side: a child is started, gets orders, reports, is ended or
//	                    killed; "is gone", with its exit status and its standard error
//	parent.go           the child's side: the roles in which a program starts itself again;
//	                    messages are received, events reported; the end of the input
//	pause.go            the ways in which a child is paused at a point of its own, and resumed;
//	                    Stop, Stands, Continue; "nothing happened within"
//	system_linux.go     a child dies with its parent; SIGSTOP to the calling thread
//	system_notlinux.go  systems other than Linux: no stop of a thread
//	system_unix.go      the wait for a child's stops and its end; SIGSTOP and SIGCONT
//	system_bsd.go       BSD and macOS: the child's process group, and what a child gets if its
//	                    parent is killed
//	system_other.go     systems without SIGSTOP: Stop and Continue return errors
package subprocess
