package testenv

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// program is a server binary of this machine.
type program struct {
	title  string                                 // its name for people, with version and path
	ready  string                                 // its log contains this when it accepts connections
	signal string                                 // the signal that ends it at once
	argv   func(folder string, port int) []string // the command that runs it in the foreground
}

//go:embed supervise.sh
var superviseScript string

// startTimeout is far above the second that a start takes: it ends only a hang.
const startTimeout = 2 * time.Minute

// start runs the program on a free port. The server runs until alive is closed, which
// also happens at the end of this process.
func (p program) start() (port int, alive *os.File, err error) {
	// The port is free when it is chosen. It may be taken when the server binds it, since
	// other test processes choose ports at the same time.
	for range 5 {
		if port, err = freePort(); err != nil {
			return 0, nil, err
		}
		if alive, err = p.startOn(port); err == nil {
			return port, alive, nil
		}
	}
	return 0, nil, err
}

func (p program) startOn(port int) (alive *os.File, err error) {
	folder, err := os.MkdirTemp("", "fencepost-testenv-")
	if err != nil {
		return nil, err
	}
	attr, err := serverAttr(folder)
	if err != nil {
		return nil, errors.Join(err, os.Remove(folder))
	}
	read, alive, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, os.Remove(folder))
	}
	defer read.Close()
	args := append([]string{"-c", superviseScript, "sh", p.signal, folder}, p.argv(folder, port)...)
	cmd := exec.Command("sh", args...)
	// The server must not inherit this process's output: `go test` would wait for it to
	// close.
	cmd.Stdin, cmd.Dir, cmd.SysProcAttr = read, folder, attr
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, alive.Close(), os.Remove(folder))
	}
	if err := p.await(folder); err != nil {
		return nil, errors.Join(err, alive.Close(), cmd.Wait())
	}
	return alive, cmd.Process.Release()
}

// await returns when the server's own log reports that it is ready. A connection would not
// show that: another server may listen on the same port.
func (p program) await(folder string) error {
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(10 * time.Millisecond) {
		log, _ := os.ReadFile(filepath.Join(folder, "log")) // no log yet: not ready
		if strings.Contains(string(log), p.ready) {
			return nil
		}
		if _, err := os.Stat(filepath.Join(folder, "ended")); err == nil || time.Now().After(deadline) {
			return fmt.Errorf("%s did not start: %s", p.title, tail(log))
		}
	}
}

func tail(log []byte) string {
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Folders of PostgreSQL that packages do not add to PATH: Debian, Red Hat, and Homebrew
// on its two architectures.
var postgresFolders = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
}

// postgresBinary returns the newest PostgreSQL of this machine with initdb beside it.
func postgresBinary() (folder, version string, err error) {
	var candidates []string
	if path, err := exec.LookPath("postgres"); err == nil {
		candidates = append(candidates, filepath.Dir(path))
	}
	for _, pattern := range postgresFolders {
		found, _ := filepath.Glob(pattern) // cannot fail: the patterns are well formed
		candidates = append(candidates, found...)
	}
	var newest []int
	for _, c := range candidates {
		if _, err := exec.LookPath(filepath.Join(c, "initdb")); err != nil {
			continue
		}
		text, number, err := binaryVersion(filepath.Join(c, "postgres"))
		if err == nil && slices.Compare(number, newest) > 0 {
			folder, version, newest = c, text, number
		}
	}
	if folder == "" {
		return "", "", errors.New("neither PATH nor /usr/lib/postgresql has postgres and initdb")
	}
	return folder, version, nil
}

// redisBinary returns the Redis server in PATH, or Valkey.
func redisBinary() (path, version string, err error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err = exec.LookPath(name); err == nil {
			version, _, err = binaryVersion(path)
			return path, version, err
		}
	}
	return "", "", errors.New("PATH has no redis-server")
}

var versionPattern = regexp.MustCompile(`(\d+)(?:\.(\d+))?(?:\.(\d+))?`)

// versionOutputs caches the output of `path --version` by path: tests start many
// servers, and would run it for each.
var versionOutputs sync.Map

func versionOutput(path string) (string, error) {
	if text, known := versionOutputs.Load(path); known {
		return text.(string), nil
	}
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", path, err)
	}
	versionOutputs.Store(path, string(out))
	return string(out), nil
}

// binaryVersion returns the first dotted number in the output of `path --version`.
func binaryVersion(path string) (text string, number []int, err error) {
	out, err := versionOutput(path)
	if err != nil {
		return "", nil, err
	}
	parts := versionPattern.FindStringSubmatch(out)
	if parts == nil {
		return "", nil, fmt.Errorf("%s --version: no number in %q", path, out)
	}
	for _, part := range parts[1:] {
		n, _ := strconv.Atoi(part) // a missing part is 0
		number = append(number, n)
	}
	return parts[0], number, nil
}
