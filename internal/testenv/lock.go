package testenv

import (
	"fmt"
	"os"
	"path/filepath"
)

// lockFile waits until no other test, in this process or another one of this
// user, holds the lock of that name. The end of a process gives its locks up.
func lockFile(name string) (unlock func(), err error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("fencepost-%d-%s.lock", os.Getuid(), name))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := waitLock(f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	// The file stays: removing it would let one process lock the old file and
	// another one the new.
	return func() { f.Close() }, nil
}
