// Package serverproc starts this machine's servers for tests, and leaves nothing of them.
// It has no dependency besides the standard library: a module needs no driver to test on a
// server.
//
// A shell supervises each server. The test process has the other end of the shell's input,
// which closes however that process ends; then the shell ends the server and removes its
// folder. The test process and the shell share a lock on the folder. If both were killed,
// the lock is free, and the next test process that makes a folder ends what still runs in
// the old one, and removes it.
//
//	process.go          any server program is started on a free port: "did not start", with the
//	                    end of its log; it is killed, restarted, signalled; reserved ports
//	process.sh          runs a server until its test process has ended
//	folder.go           the folders of servers and of test processes; what a killed run left
//	remove.sh           ends the processes of a folder; removes it, and the shared memory of a
//	                    killed PostgreSQL
//	certificate.go      a self-signed certificate of 127.0.0.1, and a key file that PostgreSQL
//	                    accepts
//	system_unix.go      the user that runs the servers if the tests run as root; a session of
//	                    their own; flock
//	system_windows.go   local servers are not started on Windows
package serverproc
