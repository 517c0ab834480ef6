package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx" of wait.ForSQL
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// startTimeout is far above the time of a start. It does not include a pull.
const startTimeout = 2 * time.Minute

// server is a server in a container.
type server struct {
	env       string // names its URL for the tests
	image     string
	port      string
	options   []testcontainers.ContainerCustomizer
	url       func(host string, port network.Port) string
	container testcontainers.Container // set once it was made, even if it did not start
	address   string
}

func (s *server) start(ctx context.Context) error {
	options := append(s.options, testcontainers.WithExposedPorts(s.port))
	container, err := testcontainers.Run(ctx, s.image, options...)
	if container != nil {
		s.container = container
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", s.image, err)
	}
	host, err := container.Host(ctx)
	if err != nil {
		return err
	}
	port, err := container.MappedPort(ctx, s.port)
	if err != nil {
		return err
	}
	s.address = s.url(host, port)
	return nil
}

// postgres returns a PostgreSQL server whose superuser is postgres. The default of 100
// connections is too low for packages that are tested at the same time, and the encoding
// must be UTF-8 whatever the image's default is.
func postgres(env string) *server {
	url := func(host string, port network.Port) string {
		return fmt.Sprintf("postgres://postgres:fencepost@%s:%d/postgres?sslmode=disable", host, port.Num())
	}
	const port = "5432/tcp"
	return &server{
		env: env, url: url, port: port,
		image: cmp.Or(os.Getenv("FENCEPOST_TEST_POSTGRES_IMAGE"), "postgres:17"),
		options: []testcontainers.ContainerCustomizer{
			testcontainers.WithEnv(map[string]string{"POSTGRES_PASSWORD": "fencepost", "LANG": "C.UTF-8"}),
			testcontainers.WithCmd("postgres", "-c", "max_connections=300", "-c", "fsync=off"),
			testcontainers.WithWaitStrategyAndDeadline(startTimeout,
				wait.ForSQL(port, "pgx", url).WithStartupTimeout(startTimeout)),
		},
	}
}

// redis returns a Redis server that stores nothing on disk.
func redis(env string) *server {
	const port = "6379/tcp"
	return &server{
		env: env, port: port,
		url: func(host string, port network.Port) string {
			return fmt.Sprintf("redis://%s:%d", host, port.Num())
		},
		image: cmp.Or(os.Getenv("FENCEPOST_TEST_REDIS_IMAGE"), "redis:7"),
		options: []testcontainers.ContainerCustomizer{
			testcontainers.WithCmd("--save", "", "--appendonly", "no"),
			testcontainers.WithWaitStrategyAndDeadline(startTimeout,
				wait.ForLog("Ready to accept connections").WithStartupTimeout(startTimeout)),
		},
	}
}

// mariadb returns a MariaDB server. Its address is a DSN of the driver.
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
