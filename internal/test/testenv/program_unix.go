//go:build !windows

package testenv

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// serverAttr makes the folder the property of the user that runs the server, and returns
// the attributes of its process: a session of its own, so that the terminal's interrupt
// key does not stop the server while a test is cleaning up.
func serverAttr(folder string) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Setsid: true}
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

// serversOwn makes a file the property of the user that runs the servers.
func serversOwn(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid, err := unprivileged()
	if err != nil {
		return err
	}
	return os.Chown(path, uid, gid)
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
