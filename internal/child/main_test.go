package child_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/internal/child"
)

// envRole turns this test binary into a child.
const envRole = "FENCEPOST_CHILD_TEST_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(envRole)
	if role == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := play(role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

func play(role string) error {
	switch role {
	case "echo":
		return echo()
	case "deaf":
		select {}
	case "race":
		return json.NewEncoder(os.Stdout).Encode(os.Getenv("GORACE"))
	case "leaves":
		return leave()
	}
	return playHere(role)
}

// echo says what it hears until there is no more. "die" it takes literally.
func echo() error {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var text string
		if err := in.Decode(&text); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if text == "die" {
			return errors.New("out\nof luck")
		}
		if err := out.Encode(text); err != nil {
			return err
		}
	}
}

// leave ends before a process of its own, which has its standard error, and ends
// with descriptor 3.
func leave() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	survivor := exec.Command(self)
	survivor.Env = append(os.Environ(), envRole+"=echo")
	survivor.Stdin, survivor.Stderr = os.NewFile(3, "stay"), os.Stderr
	return survivor.Start()
}

func start(t *testing.T, role string, files ...*os.File) *child.Process[string] {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p, err := child.Start[string](child.Command{
		Name: "the " + role, Argv: []string{self}, Env: []string{envRole + "=" + role}, Files: files,
	})
	require.NoError(t, err)
	t.Cleanup(func() { p.End(t.Context()) }) // which has ended: what still runs is killed
	return p
}
