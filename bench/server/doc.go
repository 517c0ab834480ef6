// Package server starts the servers that are measured: binaries of this machine,
// each on a free port of 127.0.0.1, with its data in a folder of its own beneath
// TMPDIR.
//
// A server and its folder are gone when this process is, however it ended: a
// shell supervises the server for as long as the other end of a pipe is open,
// and the kernel closes that. An orderly end is [Server.Stop].
//
// PostgreSQL waits for its disk, as it does by default: a guarded write beside
// one that nobody has to wait for would look dearer than it is. Where TMPDIR is
// in memory, as /tmp is on some systems, name a folder on a disk.
package server
