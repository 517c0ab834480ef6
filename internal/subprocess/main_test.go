package subprocess_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	subprocess.Serve(roles)
	leaktest.Main(m)
}

// roles are the roles of children. Some systems have more.
var roles = map[string]func(*subprocess.Parent) error{
	"echo":   echo,
	"silent": func(*subprocess.Parent) error { time.Sleep(time.Hour); return nil }, // it is killed before
	"race":   func(p *subprocess.Parent) error { p.Report(os.Getenv("GORACE")); return nil },
	"leaves": leave,
	"pauses": pauseOnce,
}

// echo repeats its messages until the end of its input. "die" makes it fail.
func echo(p *subprocess.Parent) error {
	return subprocess.Each(p, func(text string) error {
		if text == "die" {
			return errors.New("out\nof luck")
		}
		p.Report(text)
		return nil
	})
}

// pauseOnce pauses in the way of the first message, before its second report.
func pauseOnce(p *subprocess.Parent) error {
	var how subprocess.Pause
	if err := p.Receive(&how); err != nil {
		return err
	}
	p.Report("pauses")
	if err := p.Pause(how); err != nil {
		return err
	}
	p.Report("resumed")
	ctx, cancel := p.UntilClosed(context.Background())
	defer cancel()
	<-ctx.Done()
	p.Report("closed")
	return nil
}

// leave ends before a process that it has started, which has its standard error and ends
// with descriptor 3.
func leave(*subprocess.Parent) error {
	c, err := subprocess.Self("the survivor", "echo")
	if err != nil {
		return err
	}
	survivor := exec.Command(c.Argv[0])
	survivor.Env = append(os.Environ(), c.Env...)
	survivor.Stdin, survivor.Stderr = os.NewFile(3, "stay"), os.Stderr
	return survivor.Start()
}

func start(t *testing.T, role string, files ...*os.File) *subprocess.Process[string] {
	t.Helper()
	c, err := subprocess.Self("the "+role, role)
	require.NoError(t, err)
	c.Files = files
	p, err := subprocess.Start[string](c)
	require.NoError(t, err)
	t.Cleanup(func() { p.End(t.Context()) }) // ctx has ended: a child that still runs is killed
	return p
}
