package testenv

import (
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"testing"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

// Nginx starts this machine's nginx for this test, and returns the URL of a folder, without
// a slash at its end. Its files can be read, PUT and DELETEd over HTTP. It is removed at the
// end of the test. The server is not written in Go and does not support tokens.
func Nginx(t testing.TB) string {
	t.Helper()
	p, err := nginxProgram()
	return "http://" + serverproc.Loopback(startOwn(t, p, err).Port)
}

//go:embed nginx.sh
var nginxScript string

func nginxProgram() (serverproc.Program, error) {
	path, err := nginxBinary()
	if err != nil {
		return serverproc.Program{}, err
	}
	argv := func(_ string, port int) []string {
		return []string{"sh", "-c", nginxScript, "sh", path, fmt.Sprint(port)}
	}
	return serverproc.Program{
		Title: path, Argv: argv,
		// nginx logs its event method after it listens.
		Ready: `event method`, Signal: "TERM",
	}, nil
}

// nginxBinary also searches /usr/sbin, where Debian puts it and which may be missing from
// PATH.
func nginxBinary() (path string, err error) {
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("neither PATH nor /usr/sbin has nginx")
}
