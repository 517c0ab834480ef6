package testenv

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

// lockFile waits until no other test of this user, in this process or another, holds the
// lock of that name. The end of a process releases its locks.
func lockFile(name string) (unlock func(), err error) {
	path := filepath.Join(serverproc.Common(), fmt.Sprintf("fencepost-%d-%s.lock", os.Getuid(), name))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := waitLock(f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	// The file stays: if it were removed, one process could lock the old file and another
	// the new one.
	return func() { f.Close() }, nil
}
