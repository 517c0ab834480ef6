package serverproc

import (
	"errors"
	"os"
	"syscall"
)

var errWindows = errors.New("local servers are not started on Windows")

func ownSession() *syscall.SysProcAttr { return nil }

// serverAttr returns an error: on Windows nothing ends a server with its test process.
func serverAttr(string) (*syscall.SysProcAttr, error) { return nil, errWindows }

// giveTo does nothing: no local server runs as another user.
func giveTo(string) error { return nil }

func letServersIn(string) error { return nil }

func tryLock(*os.File) error { return errWindows }
