package adopt_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/adopt"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/simulations"
)

func TestStressConsulSurvivesThePause(t *testing.T) {
	t.Parallel()
	client, pool := consul(t), traced(t, database(t))
	app := app{pool, func(ctx context.Context, w work) error { return adopt.Consul(ctx, client, pool, w) }}
	simulations.Run(t, simulations.Subject{
		Expire: func(context.Context) error {
			_, err := client.KV().Delete("locks/account/42", nil)
			return err
		},
		Resource: "account/42", Count: app.withdrawn,
		Do: func(ctx context.Context) error { return app.withdraw(ctx, 1) },
	})
	t.Run("a wait ends with its context", func(t *testing.T) {
		held, err := client.LockKey("locks/account/42")
		require.NoError(t, err)
		_, err = held.Lock(nil)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, app.hold(ctx, nil), context.DeadlineExceeded)
		require.NoError(t, held.Unlock())
	})
}

// consul starts a Consul of one server, without a disk.
func consul(t *testing.T) *api.Client {
	t.Helper()
	folder := os.Getenv("FENCEPOST_CONSUL")
	require.NotEmpty(t, folder, "this test needs a Consul:\nexport FENCEPOST_CONSUL=$(scripts/consul)")
	rpc := serverproc.FreePort(t)
	process, err := serverproc.Start(serverproc.Program{Title: "consul", Ready: "Consul agent running!", Argv: func(_ string, port int) []string {
		ports := fmt.Sprintf("ports { http = %d, server = %d, serf_lan = %d, serf_wan = -1, dns = -1, grpc = -1, grpc_tls = -1 }", port, rpc, rpc+serverproc.BusPort)
		return []string{filepath.Join(folder, "consul"), "agent", "-dev", "-bind", "127.0.0.1", "-client", "127.0.0.1", "-hcl", ports}
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, process.Remove()) })
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := api.NewClient(&api.Config{Address: serverproc.Loopback(process.Port), HttpClient: &http.Client{Transport: transport}})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := client.KV().Put(&api.KVPair{Key: "ready"}, nil)
		return err == nil
	}, serverproc.Timeout, 20*time.Millisecond)
	return client
}
