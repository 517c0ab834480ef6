package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

const envMariaDB = "FENCEPOST_TEST_MARIADB_URL"

// localMariaDB reports whether the tests find programs of this machine, in the
// folders where internal/testenv looks for them.
func localMariaDB() bool {
	for _, name := range []string{"mariadb-install-db", "mariadbd"} {
		found := false
		for _, folder := range []string{"", "/usr/sbin", "/usr/bin", "/opt/homebrew/opt/mariadb/bin", "/usr/local/opt/mariadb/bin"} {
			_, err := exec.LookPath(filepath.Join(folder, name))
			found = found || err == nil
		}
		if !found {
			return false
		}
	}
	return true
}

// mariadb is a MariaDB server, whose address is a DSN of the driver.
func mariadb(env string) *server {
	dsn := func(host string, port network.Port) string {
		return fmt.Sprintf("root:fencepost@tcp(%s:%d)/", host, port.Num())
	}
	const port = "3306/tcp"
	return &server{
		env: env, url: dsn, port: port,
		image: cmp.Or(os.Getenv("FENCEPOST_TEST_MARIADB_IMAGE"), "mariadb:11"),
		options: []testcontainers.ContainerCustomizer{
			testcontainers.WithEnv(map[string]string{"MARIADB_ROOT_PASSWORD": "fencepost"}),
			testcontainers.WithCmd("--max-connections=500", "--innodb-flush-log-at-trx-commit=0"),
			testcontainers.WithWaitStrategyAndDeadline(startTimeout,
				wait.ForSQL(port, "mysql", dsn).WithStartupTimeout(startTimeout)),
		},
	}
}
