// Package lock decides who has a lock and under which number. It has no clock,
// no goroutine and no network: whoever asks says what time it is.
//
// memtoken asks it under a mutex; package kernel asks it from a simulated
// server, with a clock that jumps and a memory that is lost. So what the
// simulator proves it proves of the code that runs.
package lock
