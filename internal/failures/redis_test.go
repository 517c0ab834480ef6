package failures_test

import (
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// hazard R2
func TestRedisIsKilledAndStartedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		memory   memory
		settings []string
	}{
		"without persistence":       {forgets, nil},
		"RDB":                       {forgets, []string{"--save", "3600 1"}},
		"AOF, fsync every second":   {perhaps, []string{"--appendonly", "yes", "--appendfsync", "everysec"}},
		"AOF, fsync at every write": {keeps, []string{"--appendonly", "yes", "--appendfsync", "always"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			survive(t, c.memory, func(t *testing.T) system { return restarted(t, c.settings) })
		})
	}
}

func restarted(t *testing.T, settings []string) system {
	t.Helper()
	server := testenv.OwnRedis(t, settings...)
	s := onRedis(server)
	if len(settings) == 2 {
		s.depart = func() { require.NoError(t, server.Client().Save(t.Context()).Err()) }
	}
	s.fail = server.Restart
	return s
}

func onRedis(server *testenv.RedisServer) system {
	var at place
	at.move(server.Addr())
	return system{issuer: func(t *testing.T) token.Issuer {
		t.Helper()
		return closed(t, &redistoken.Issuer{Client: at.redis(t)})
	}}
}

// hazard R3
func TestRedisIsFlushed(t *testing.T) {
	t.Parallel()
	survive(t, forgets, func(t *testing.T) system {
		t.Helper()
		server := testenv.OwnRedis(t)
		s := onRedis(server)
		s.fail = func() { require.NoError(t, server.Client().FlushAll(t.Context()).Err()) }
		return s
	})
}

// hazard R1
func TestAReplicaThatWasCutOffIsPromoted(t *testing.T) {
	t.Parallel()
	survive(t, forgets, promotedReplica)
}

func promotedReplica(t *testing.T) system {
	t.Helper()
	master, replica := testenv.OwnRedis(t), testenv.OwnRedis(t)
	replica.ReplicaOf(master)
	var at place
	at.move(master.Addr())
	return system{
		issuer: func(t *testing.T) token.Issuer { t.Helper(); return closed(t, &redistoken.Issuer{Client: at.redis(t)}) },
		depart: replica.CutOff,
		// For a moment there are two masters: who is connected to the old one
		// stays with it until it is gone.
		fail: func() {
			replica.Promote()
			at.move(replica.Addr())
			master.Kill()
		},
	}
}

// hazard R1
func TestAClusterFailsOver(t *testing.T) {
	t.Parallel()
	survive(t, perhaps, failedOver)
}

func failedOver(t *testing.T) system {
	t.Helper()
	c := testenv.RedisCluster(t, 3, 1, "--cluster-node-timeout", "500")
	return system{
		issuer: func(t *testing.T) token.Issuer { t.Helper(); return closed(t, &redistoken.Issuer{Client: c.Client()}) },
		fail:   func() { c.Failover(bucket) },
	}
}

// bucket is a key in the slot of the resource's.
var bucket = fmt.Sprintf("{%d}", crc32.ChecksumIEEE([]byte(resource))%256)
