package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/fencepost/fencepost/lab/containers/wire"
)

// cell is a container with the writer A in it. The test reaches A over a network that is
// never disconnected. Package internal/rounds does not fit: A is no child of the test,
// Docker pauses it, and its order to write arrives while it is paused.
type cell struct {
	t         *testing.T
	docker    *testcontainers.DockerClient
	container testcontainers.Container
	orders    *json.Encoder
	answers   *json.Decoder
}

// binary returns the writer, a static binary that runs in any image.
func binary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "writer")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./writer")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// lockUp starts A with access to both servers.
func lockUp(t *testing.T, w *world) *cell {
	t.Helper()
	docker, err := testcontainers.NewDockerClientWithOpts(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { docker.Close() })
	// The image only has to run a static binary, and Redis's image is already pulled.
	container, err := testcontainers.Run(t.Context(), w.redis.image,
		testcontainers.WithFiles(testcontainers.ContainerFile{HostFilePath: binary(t), ContainerFilePath: "/writer", FileMode: 0o755}),
		testcontainers.WithEntrypoint("/writer"),
		testcontainers.WithEnv(map[string]string{
			wire.EnvRedis: redisName + ":6379", wire.EnvPostgres: "postgres://postgres:fencepost@" + postgresName + ":5432/postgres",
		}),
		network.WithBridgeNetwork(), network.WithNetwork(nil, w.redisNet), network.WithNetwork(nil, w.postgresNet),
		testcontainers.WithExposedPorts(wire.Port),
		testcontainers.WithWaitStrategyAndDeadline(startTimeout, wait.ForLog(wire.Ready)),
	)
	remove(t, container)
	require.NoError(t, err)
	c := &cell{t: t, docker: docker, container: container}
	c.call()
	return c
}

func (c *cell) call() {
	c.t.Helper()
	address, err := c.container.PortEndpoint(c.t.Context(), wire.Port, "")
	require.NoError(c.t, err)
	conn, err := net.DialTimeout("tcp", address, startTimeout)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { conn.Close() })
	c.orders, c.answers = json.NewEncoder(conn), json.NewDecoder(conn)
}

// send sends A an order, which a frozen A does not read.
func (c *cell) send(o wire.Order) {
	c.t.Helper()
	o.Resource = resource
	require.NoError(c.t, c.orders.Encode(o))
}

func (c *cell) receive() (a wire.Answer) {
	c.t.Helper()
	require.NoError(c.t, c.answers.Decode(&a))
	return a
}

// exchange sends an order and returns its answer.
func (c *cell) exchange(o wire.Order) wire.Answer {
	c.t.Helper()
	c.send(o)
	return c.receive()
}

// hold makes A hold the resource, and returns the balance that A has read. A's lease must
// expire by itself. If it expires before A has read, A starts again with a lease that is
// twice as long.
func (c *cell) hold(observe bool) (balance int) {
	c.t.Helper()
	for ttl := time.Second; ; ttl *= 2 {
		seen := c.exchange(wire.Order{Do: wire.Hold, TTL: ttl, Observe: observe})
		if seen.Outcome != wire.Gone || ttl > startTimeout {
			require.Empty(c.t, seen.Outcome)
			return seen.Balance
		}
	}
}

// freeze stops all of the container's processes by the cgroup's freezer.
func (c *cell) freeze() {
	c.t.Helper()
	_, err := c.docker.ContainerPause(c.t.Context(), c.container.GetContainerID(), client.ContainerPauseOptions{})
	require.NoError(c.t, err)
	require.Eventually(c.t, func() bool { // Docker may show it later
		state, err := c.container.Inspect(c.t.Context())
		return err == nil && state.State.Paused
	}, startTimeout, time.Millisecond)
}

func (c *cell) thaw() {
	c.t.Helper()
	_, err := c.docker.ContainerUnpause(c.t.Context(), c.container.GetContainerID(), client.ContainerUnpauseOptions{})
	require.NoError(c.t, err)
}

func remove(t *testing.T, container testcontainers.Container) {
	if container != nil {
		t.Cleanup(func() {
			require.NoError(t, testcontainers.TerminateContainer(container,
				testcontainers.StopContext(context.Background()), testcontainers.StopTimeout(time.Second)))
		})
	}
}
