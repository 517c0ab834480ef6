package testenv_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

func TestALockIsExclusiveAndEndsWithItsHolder(t *testing.T) {
	t.Parallel()
	other, says := another(t, "holder of a lock")
	require.Equal(t, "locked", says())
	locked := make(chan error)
	go func() {
		unlock, err := testenv.LockFile("testenv-test")
		locked <- err
		unlock()
	}()
	select {
	case err := <-locked:
		t.Fatalf("two processes hold the lock (%v)", err)
	case <-time.After(300 * time.Millisecond):
	}
	require.NoError(t, other.Process.Kill())
	require.NoError(t, <-locked)
}
