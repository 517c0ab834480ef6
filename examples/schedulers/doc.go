// Package schedulers shows how the effects of a scheduler, a job queue and a stream are guarded:
// each takes effect once, also if the process that works on it is stopped, and another one
// takes over. The libraries are unchanged, and there is no adapter.
//
//	ticks.go   the ticks of a job since the last one, each in a transaction of Once
//	gocron.go  a gocron scheduler on each instance, whose Elector is a Candidate
//	asynq.go   an asynq scheduler on the instance that leads; its tasks carry the term's token
//	river.go   a River worker: each attempt at a job mints a number
//	nats.go    a consumer of a JetStream stream: the offset is in the effect's transaction
//
// # What it teaches
//
//   - gocron asks IsLeader before each run, and a process can be paused right after it. So
//     the job takes its token once, before its first read, and writes under it.
//   - A token tells the holders apart, and not the ticks. Once records each tick.
//   - What a queue delivers twice, two workers have at the same time. Mint decides which of
//     the two may still write: the later one.
package schedulers
