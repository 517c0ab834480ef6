package testenv

import (
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
)

//go:embed nginx.sh
var nginxScript string

func nginxURL(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }

func nginxProgram() (program, error) {
	path, err := nginxBinary()
	if err != nil {
		return program{}, err
	}
	argv := func(_ string, port int) []string {
		return []string{"sh", "-c", nginxScript, "sh", path, fmt.Sprint(port)}
	}
	return program{
		title: path, argv: argv,
		// It says how it will wait for events once it listens.
		ready: `event method`, signal: "TERM",
	}, nil
}

// nginxBinary looks where Debian puts it too, which is not in everybody's PATH.
func nginxBinary() (path string, err error) {
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("neither PATH nor /usr/sbin has nginx")
}
