//go:build !windows

package testenv

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// serverAttr gives the folder to the user who is to run a server in it, and
// says how to start it: in a session of its own, so that the terminal's
// interrupt key does not stop the server under a test that is cleaning up.
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

// unprivileged is who runs the servers for root, whom PostgreSQL refuses.
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
