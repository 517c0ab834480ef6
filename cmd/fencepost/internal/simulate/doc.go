// Package simulate is the command fencepost simulate. It shows with real processes what a
// paused lock holder does to a row, and what a guard does about it.
//
// Two child processes add to one account, in rounds as package rounds draws and performs them,
// and in four ways: see [Way].
//
// # What it promises
//
// Every figure is counted from the rows in the database after the round and from the
// answers to the writers. A round that differs from the drawing is an error, and has no
// figures. A run uses its own names for everything it makes, and removes everything at
// its end, also when its context is cancelled.
//
// # What it does not do
//
// A run forces one interleaving each time, and does not search for others. If the parent is
// killed with SIGKILL, the writers end too, but the folder, the schema and the keys of the
// run stay.
//
// # The files, in reading order
//
//	command.go  the flags and their limits; the exit status; the progress line; fencepost writer,
//	            the hidden command of a writer's process
//	run.go      the rounds of each way; what is counted after each; a round that differs from the
//	            drawing is an error; the history of the first one
//	writer.go   the four ways: what a writer reads, checks and writes
//	store.go    the row of the account, in SQLite or PostgreSQL; the list of increments by which
//	            a lost one is found
//	servers.go  the embedded Redis and SQLite, or the servers of the flags; the keys, the schema
//	            and the folder are removed at the end, also after Ctrl-C
//	text.go     what is printed: the drawing of a round, the table of the four ways, the verdict
//	html.go     the page of --html: the verdict, the table, which rounds it shows, its headings
//	sql/        the statements for the account: create, put, select
package simulate
