package testenv

import (
	"errors"
	"syscall"
)

// serverAttr returns an error: on Windows nothing ends a server with its test process.
func serverAttr(string) (*syscall.SysProcAttr, error) {
	return nil, errors.New("local servers are not started on Windows")
}

// serversOwn does nothing: no local server runs as another user.
func serversOwn(string) error { return nil }
