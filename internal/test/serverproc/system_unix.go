//go:build !windows

package serverproc

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// ownSession makes a process one that the terminal's interrupt key does not reach.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// serverAttr makes the folder the property of the user that runs the server, and returns
// the attributes of its process: a session of its own, so that the interrupt key does not
// stop the server while a test is cleaning up.
func serverAttr(folder string) (*syscall.SysProcAttr, error) {
	attr := ownSession()
	if os.Geteuid() != 0 {
		return attr, nil
	}
	uid, gid, err := unprivileged()
	if err != nil {
		return nil, err
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attr, os.Chown(folder, uid, gid)
}

// giveTo makes a file the property of the user that runs the servers.
func giveTo(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid, err := unprivileged()
	if err != nil {
		return err
	}
	return os.Chown(path, uid, gid)
}

// letServersIn lets the user that runs the servers make and remove folders of its own in a
// folder.
func letServersIn(folder string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chmod(folder, os.ModeSticky|0o777)
}

// unprivileged returns the account that runs the servers if the tests run as root, since
// PostgreSQL refuses root.
func unprivileged() (uid, gid int, err error) {
	account, err := user.Lookup("postgres")
	if err != nil {
		account, err = user.Lookup("nobody")
	}
	if err != nil {
		return 0, 0, fmt.Errorf("root needs a user postgres or nobody to run servers as: %w", err)
	}
	if uid, err = strconv.Atoi(account.Uid); err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(account.Gid)
	return uid, gid, err
}

// tryLock locks a file, or returns an error if another process holds the lock.
func tryLock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
