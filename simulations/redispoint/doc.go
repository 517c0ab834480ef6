// Package redispoint lets a simulation observe, and stop, what a program sends to Redis with
// go-redis. The program's code does not change.
//
// # What it is
//
// [Hook] is a hook for go-redis. It reports these steps to the simulation that a call's
// context belongs to, and the call blocks until the simulation lets it continue:
//
//	begin      before a command or a pipeline is sent
//	applied    when a write was acknowledged, before the caller gets the reply
//	undone     after a read, or a write that the server refused
//	unknown    after a write without a reply, or with one that does not tell
//
// A pipeline, with or without MULTI, is one transaction. A guard of package redisguard
// reports its steps itself. The commands of redistoken's locks have none.
//
// # What it promises
//
// It changes nothing, with one exception: if the simulation drops a write or its reply, the
// caller gets an error. A call whose context belongs to no simulation never blocks.
//
// A command that is not known as a read counts as a write, also if it changed nothing. If
// the reply is nil, or the command is a module's, its outcome is unknown. So is that of a
// script that fails, or returns 0, false, "" or nothing: a fence of your own in Lua must
// refuse with one of these.
//
// # What it does not do
//
// It drops replies above go-redis's own retries (MaxRetries), and so does not show that these
// can apply a write twice. It does not stop between the commands of a pipeline, and does not
// recognize a MULTI that is sent by Do.
//
// The commands of another lock, such as redsync's, count as the program's writes, unless
// [Hook.Lock] has its key or its client has no hook. An AutoPipeliner sends commands under a context of its own.
//
// A ClusterClient's Watch calls the hooks of its nodes' clients only. Add the hook to these
// too, with OnNewNode: a command that passes a hook twice is reported once.
//
//	hook := new(redispoint.Hook)
//	client.AddHook(hook)
//	cache.AddHook(hook) // one Hook for all clients of a program
//
// # Where next
//
// Package simulations for the tests that use it, package redisguard for guarded writes.
package redispoint
