package testenv

import (
	"errors"
	"syscall"
)

// serverAttr refuses: nothing here ends a server with its test process.
func serverAttr(string) (*syscall.SysProcAttr, error) {
	return nil, errors.New("local servers are not started on Windows")
}
