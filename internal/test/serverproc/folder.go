package serverproc

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
)

// prefix begins the names of all folders of tests, below the folder of temporary files.
const prefix = "fencepost-test-"

// EnvCommon is set in processes that have a folder from [OwnTemp]. It names the folder of
// temporary files that they would have without.
const EnvCommon = "FENCEPOST_TEST_TMPDIR"

// OwnTemp gives this process, and those that it starts, a folder of their own for
// temporary files. It is below parent, or below the folder of temporary files if parent is
// "". end kills the servers and other processes that still have it, and removes it. Without
// a call of end that happens soon after the end of this process. OwnTemp does nothing in a
// process that has the folder of another one, and on Windows.
func OwnTemp(parent string) (end func() error, err error) {
	if os.Getenv(EnvCommon) != "" || runtime.GOOS == "windows" {
		return func() error { return nil }, nil
	}
	common := os.TempDir()
	if parent == "" {
		parent = common
	}
	folder, lock, err := newFolderIn(parent)
	if err != nil {
		return nil, err
	}
	err = letServersIn(folder)
	read, alive, pipeErr := os.Pipe()
	if err = errors.Join(err, pipeErr); err != nil {
		return nil, errors.Join(err, remove(folder))
	}
	defer read.Close()
	supervisor := shell(`cd /; read -r _; end "$1"; remove "$1"`, folder)
	supervisor.Stdin, supervisor.ExtraFiles, supervisor.SysProcAttr = read, []*os.File{lock}, ownSession()
	if err := supervisor.Start(); err != nil {
		return nil, errors.Join(err, remove(folder), alive.Close())
	}
	end = func() error {
		return errors.Join(alive.Close(), supervisor.Wait(), lock.Close())
	}
	return end, errors.Join(os.Setenv(EnvCommon, common), os.Setenv("TMPDIR", folder))
}

// newFolder returns an empty folder for a server. The lock on it is held until lock and its
// copies in other processes are closed.
func newFolder() (path string, lock *os.File, err error) { return newFolderIn(os.TempDir()) }

func newFolderIn(parent string) (path string, lock *os.File, err error) {
	sweepOnce.Do(func() { Sweep(parent) })
	// It gets its name when it is locked: a folder of that name without a lock is one that
	// was left.
	made, err := os.MkdirTemp(parent, ".")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(parent, prefix+filepath.Base(made)[1:])
	if lock, err = os.Open(made); err == nil {
		err = tryLock(lock)
	}
	if err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		return "", nil, errors.Join(err, os.Remove(made))
	}
	return path, lock, nil
}

var sweepOnce sync.Once

// Sweep removes from parent the folders of test processes that were killed together with
// the shells that would have removed them, and ends the servers that still run in them. It
// leaves what it may not remove.
func Sweep(parent string) {
	folders, _ := filepath.Glob(filepath.Join(parent, prefix+"*")) // cannot fail: the pattern is well formed
	for _, folder := range folders {
		lock, err := os.Open(folder)
		if err != nil {
			continue // another user's, or just removed
		}
		if tryLock(lock) == nil {
			if err := removed(shell(`end "$1"; remove "$1"`, folder)); err != nil {
				fmt.Fprintln(os.Stderr, "serverproc: left by an earlier run:", err)
			}
		}
		lock.Close()
	}
}

//go:embed remove.sh
var removeScript string

// shell returns a shell that runs script, which may call end and remove.
func shell(script string, args ...string) *exec.Cmd {
	return exec.Command("/bin/sh", append([]string{"-c", removeScript + script, "sh"}, args...)...)
}

func remove(folder string) error { return removed(shell(`remove "$1"`, folder)) }

func removed(by *exec.Cmd) error {
	if out, err := by.CombinedOutput(); err != nil {
		return fmt.Errorf("%s was not removed: %w: %s", by.Args[len(by.Args)-1], err, out)
	}
	return nil
}
