package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	networktypes "github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"
)

// isolated makes a network without access to others. A container gets its old address
// back only if the network's subnet was chosen by its creator.
func isolated(t *testing.T) *testcontainers.DockerNetwork {
	t.Helper()
	net, err := trySubnet(t.Context())
	for tries := 0; err != nil && strings.Contains(err.Error(), "overlaps") && tries < 20; tries++ {
		net, err = trySubnet(t.Context())
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, net.Remove(context.Background())) })
	return net
}

func trySubnet(ctx context.Context) (*testcontainers.DockerNetwork, error) {
	subnet := netip.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", 200+rand.IntN(50), rand.IntN(256)))
	return network.New(ctx, network.WithInternal(), network.WithIPAM(&networktypes.IPAM{
		Driver: "default", Config: []networktypes.IPAMConfig{{Subnet: subnet}},
	}))
}

// disconnect disconnects A from the network, and returns the address that A had there.
func (c *cell) disconnect(net *testcontainers.DockerNetwork) (address netip.Addr) {
	c.t.Helper()
	state, err := c.container.Inspect(c.t.Context())
	require.NoError(c.t, err)
	endpoint, connected := state.NetworkSettings.Networks[net.Name]
	require.True(c.t, connected)
	_, err = c.docker.NetworkDisconnect(c.t.Context(), net.ID, client.NetworkDisconnectOptions{Container: c.container.GetContainerID()})
	require.NoError(c.t, err)
	return endpoint.IPAddress
}

// reconnect connects A again: open connections continue.
func (c *cell) reconnect(net *testcontainers.DockerNetwork, address netip.Addr) {
	c.t.Helper()
	_, err := c.docker.NetworkConnect(c.t.Context(), net.ID, client.NetworkConnectOptions{
		Container: c.container.GetContainerID(),
		EndpointConfig: &networktypes.EndpointSettings{
			IPAMConfig: &networktypes.EndpointIPAMConfig{IPv4Address: address},
		},
	})
	require.NoError(c.t, err)
}
