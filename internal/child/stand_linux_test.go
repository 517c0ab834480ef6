package child_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/child"
)

// tick counts in the memory that descriptor 4 shares, asleep now and then on one
// goroutine and never on another; and stops the world again and again.
func tick() error {
	counts, err := share(os.NewFile(4, "counts"))
	if err != nil {
		return err
	}
	go func() {
		for ; ; time.Sleep(50 * time.Microsecond) {
			counts[0].Add(1)
		}
	}()
	go func() {
		for {
			counts[1].Add(1)
			runtime.Gosched()
		}
	}()
	order := make([]byte, 1)
	for {
		if _, err := os.Stdin.Read(order); err != nil {
			return nil
		}
		if order[0] != '!' {
			continue
		}
		if err := child.StopWorld(3); err != nil {
			return err
		}
		if _, err := os.Stdout.WriteString("\"woke\"\n"); err != nil {
			return errors.New("nobody listens")
		}
	}
}

func share(f *os.File) (*[2]atomic.Uint64, error) {
	memory, err := syscall.Mmap(int(f.Fd()), 0, 16, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return (*[2]atomic.Uint64)(unsafe.Pointer(&memory[0])), nil
}

// While it stands nothing of it runs: its memory does not change.
func TestNothingOfAChildRunsWhileItStands(t *testing.T) {
	t.Parallel()
	world, err := child.NewWorld()
	require.NoError(t, err)
	t.Cleanup(func() { world.Close() })
	file, err := os.Create(filepath.Join(t.TempDir(), "counts"))
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	require.NoError(t, file.Truncate(16))
	counts, err := share(file)
	require.NoError(t, err)
	p := start(t, "ticks", world.File(), file)
	requireRuns(t, counts)
	for range 3 {
		require.NoError(t, p.Stop())
		require.NoError(t, p.Stands(t.Context()))
		requireStands(t, counts)
		require.NoError(t, p.Continue())
		requireRuns(t, counts)

		require.NoError(t, world.Hold())
		require.NoError(t, p.Send("!"))
		require.NoError(t, world.Stands(t.Context()))
		requireStands(t, counts)
		world.Drain()
		_, err := p.Next(t.Context())
		require.NoError(t, err)
		requireRuns(t, counts)
	}
}

func requireStands(t *testing.T, counts *[2]atomic.Uint64) {
	t.Helper()
	before := [2]uint64{counts[0].Load(), counts[1].Load()}
	time.Sleep(30 * time.Millisecond)
	require.Equal(t, before, [2]uint64{counts[0].Load(), counts[1].Load()})
}

func requireRuns(t *testing.T, counts *[2]atomic.Uint64) {
	t.Helper()
	before := [2]uint64{counts[0].Load(), counts[1].Load()}
	require.Eventually(t, func() bool {
		return counts[0].Load() > before[0] && counts[1].Load() > before[1]
	}, time.Minute, time.Millisecond)
}

func TestWaitingForAWorldEndsWithItsContext(t *testing.T) {
	t.Parallel()
	world, err := child.NewWorld()
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	require.Equal(t, errEnough, world.Stands(ctx))
	world.Drain()
	require.NoError(t, world.Close())
}
