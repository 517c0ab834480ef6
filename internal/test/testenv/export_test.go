package testenv

import (
	"os"
)

// LockFile is exported for tests that need no server.
var LockFile = lockFile

// StartProgram runs argv as a server in a folder, until alive is closed.
func StartProgram(argv func(folder string, port int) []string) (port int, alive *os.File, err error) {
	return program{title: "a stand-in", ready: "ready", signal: "TERM", argv: argv}.start()
}

// ShownDSN is exported for tests that need no server.
var ShownDSN = shownDSN

// Pooled is exported for tests that need no server.
var Pooled = pooled
