// Package rounds performs rounds with real processes: writer A is stopped in the middle of
// its work, its lease expires, writer B acquires the lock and writes, and A resumes.
//
//	parent                 writer A               writer B
//	Run              ───▶  acquires, reads
//	                       stopped          z     requests the lock, waits
//	                                        z     acquires, reads
//	                                        z     writes, is acknowledged
//	resumes A        ───▶  writes with what it read
//	Observe          ◀───  its answer
//
// Package simulations/process runs the subjects of tests with it, and fencepost simulate its
// own four.
//
// # What it promises
//
// A writer does not notice that it has lost the lock, as the worst holder does not. The
// requests of both writers are recorded, also those of a writer that was killed. A round that
// cannot be performed is an error, and is not observed. The writers end before Run returns, and
// with the parent.
//
// # What it does not do
//
// It judges nothing: its caller checks the history, and what the resource contains. It forces
// one stop in each round, and does not search for others.
//
// # The files, in reading order
//
//	rounds.go   what a caller sets; the rounds, in the parent's process: rehearsal, the step or
//	            moment of the stop, successor, resumed or replaced A; "does not come by step"
//	peer.go     a writer's process, as the parent sees it: the messages; how it is stopped,
//	            killed and resumed; its operations are read even if it is dead
//	writer.go   a writer's process, from inside: subjects, setup and orders; an issuer that
//	            records requests and hides the loss of the lock
//	unit.go     one unit of a writer: its steps, and the stop at one of them or after a time;
//	            which writes are recorded, with which outcome; a unit that is done again
package rounds
