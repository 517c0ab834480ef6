//go:build !windows

package server

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// attributes says how to start a server in a folder: in a session of its own, so
// that a terminal's Ctrl-C ends what is measured before it. For root they give
// the folder to another user, since PostgreSQL refuses root.
func attributes(folder string) (*syscall.SysProcAttr, error) {
	a := &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() != 0 {
		return a, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		account, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("root needs a user postgres or nobody to run servers as: %w", err)
	}
	uid, err := strconv.Atoi(account.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(account.Gid)
	if err != nil {
		return nil, err
	}
	a.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return a, os.Chown(folder, uid, gid)
}
