package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A program that is run at a terminal has the terminal while it runs. Then the script that
// has started it gets the terminal back.
func TestRunAtATerminal(t *testing.T) {
	t.Parallel()
	lock := runLocks(t)["redis"]
	t.Run("the program reads, and then the script", func(t *testing.T) {
		t.Parallel()
		c := startTerminal(t, lock, "job/read", `echo ready; read x; echo "program: $x"`, `; read y; echo "script: $y"`)
		c.expect("ready")
		c.types("one\n")
		c.expect("program: one")
		c.types("two\n")
		c.expect("script: two")
	})
	t.Run("Ctrl-C is for the program", func(t *testing.T) {
		t.Parallel()
		c := startTerminal(t, lock, "job/interrupt",
			`trap "echo program: interrupted; exit 3" INT; echo ready; read x`, `; echo "status: $?"`)
		c.expect("ready")
		c.types("\x03")
		c.expect("program: interrupted")
		c.expect("status: 3")
	})
	t.Run("Ctrl-Z suspends no process", func(t *testing.T) {
		t.Parallel()
		c := startTerminal(t, lock, "job/suspend", `echo ready; read x; echo "program: $x"; read x; echo "again: $x"`, "")
		c.expect("ready")
		c.types("\x1aone\n")
		c.expect("program: one")
		c.types("\x1atwo\n")
		c.expect("again: two")
	})
}

// pty is a terminal with a script in its foreground.
type pty struct {
	*testing.T
	keys   *os.File
	screen heardText
}

// startTerminal runs a script that runs a program under the lock.
func startTerminal(t *testing.T, lock runLock, name, program, after string) *pty {
	t.Helper()
	master, tty := openTerminal(t)
	run, _ := command(t)
	flags := strings.Join(lock.flags, " ")
	script := fmt.Sprintf(`trap : INT; %s run %s %s -- sh -c '%s'%s`, run.Path, flags, name, program, after)
	cmd := exec.Command("sh", "-c", script)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = run.Env, tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, tty.Close())
	c := &pty{T: t, keys: master}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&c.screen, master)
	}()
	t.Cleanup(func() {
		master.Close() // a hang-up
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		<-read
	})
	return c
}

// openTerminal is posix_openpt(3), unlockpt(3) and ptsname(3).
func openTerminal(t *testing.T) (master, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	var lock, id int32
	for request, p := range map[uintptr]*int32{syscall.TIOCSPTLCK: &lock, syscall.TIOCGPTN: &id} {
		conn, err := master.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, conn.Control(func(fd uintptr) {
			_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(p)))
			require.Zero(t, errno)
		}))
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", id), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	return master, tty
}

func (c *pty) types(keys string) {
	c.Helper()
	_, err := c.keys.WriteString(keys)
	require.NoError(c, err)
}

func (c *pty) expect(text string) {
	c.Helper()
	for deadline := time.Now().Add(eventually); !strings.Contains(c.screen.String(), text); time.Sleep(time.Millisecond) {
		require.True(c, time.Now().Before(deadline), "no %q: %s", text, c.screen.String())
	}
}
