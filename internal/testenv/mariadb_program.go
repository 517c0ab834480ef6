package testenv

import (
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
)

//go:embed mariadb.sh
var mariadbScript string

// Where packages put MariaDB's programs without adding them to PATH: Debian
// (the server alone), Homebrew on its two processors.
var mariadbFolders = []string{"", "/usr/sbin", "/usr/bin", "/opt/homebrew/opt/mariadb/bin", "/usr/local/opt/mariadb/bin"}

func mariadbProgram() (program, error) {
	install, err := mariadbBinary("mariadb-install-db")
	if err != nil {
		return program{}, err
	}
	server, err := mariadbBinary("mariadbd")
	if err != nil {
		return program{}, err
	}
	version, _, err := binaryVersion(server)
	if err != nil {
		return program{}, err
	}
	argv := func(folder string, port int) []string {
		return []string{"sh", "-c", mariadbScript, "sh", install, server, filepath.Join(folder, "data"), fmt.Sprint(port)}
	}
	return program{
		title: "version " + version + " of " + server, argv: argv,
		// It has nothing to lose, and an orderly shutdown takes seconds.
		ready: "ready for connections", signal: "KILL",
	}, nil
}

func mariadbBinary(name string) (path string, err error) {
	for _, folder := range mariadbFolders {
		if path, err = exec.LookPath(filepath.Join(folder, name)); err == nil {
			return path, nil
		}
	}
	return "", errors.New("neither PATH nor /usr/sbin has " + name)
}
