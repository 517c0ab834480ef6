package testenv

import "os"

// LockFile lets the external tests reach what has no need of a
// server.
var LockFile = lockFile

// StartProgram runs argv as a server in a folder, for as long as alive is open.
func StartProgram(argv func(folder string, port int) []string) (port int, alive *os.File, err error) {
	return program{title: "a stand-in", ready: "ready", signal: "TERM", argv: argv}.start()
}
