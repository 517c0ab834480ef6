package testenv

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
)

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
