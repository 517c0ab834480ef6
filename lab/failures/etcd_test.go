package failures_test

import (
	"net/http"
	"testing"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/etcdtoken"
)

func onEtcd(t *testing.T, members ...*testenv.EtcdServer) token.Issuer {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	config := etcdtoken.Config{Client: &http.Client{Transport: transport}}
	for _, m := range members {
		config.Endpoints = append(config.Endpoints, m.URL())
	}
	return etcdtoken.New(config)
}

func TestStressEtcdLosesItsLeader(t *testing.T) {
	for name, lose := range map[string]func(leader *testenv.EtcdServer, others ...*testenv.EtcdServer){
		"for good": func(leader *testenv.EtcdServer, others ...*testenv.EtcdServer) {
			leader.Kill()
			testenv.EtcdLeader(others...)
		},
		"and it returns": func(leader *testenv.EtcdServer, _ ...*testenv.EtcdServer) { leader.Restart() },
		// The old leader continues where it was, with the requests that it had received.
		"while it is stopped": func(leader *testenv.EtcdServer, others ...*testenv.EtcdServer) {
			leader.Pause()
			testenv.EtcdLeader(others...)
			leader.Resume()
		},
		// Lockers reach both sides.
		"while it is cut off": func(leader *testenv.EtcdServer, others ...*testenv.EtcdServer) {
			heal := leader.CutOff()
			testenv.EtcdLeader(others...)
			heal()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			survive(t, keeps, func(t *testing.T) system {
				t.Helper()
				members := testenv.EtcdCluster(t)
				return system{
					issuer: func(t *testing.T) token.Issuer { t.Helper(); return onEtcd(t, members...) },
					fail: func() {
						leader, others := testenv.EtcdLeader(members...), []*testenv.EtcdServer(nil)
						for _, m := range members {
							if m != leader {
								others = append(others, m)
							}
						}
						lose(leader, others...)
					},
				}
			})
		})
	}
}

func TestStressASnapshotOfEtcdIsRestored(t *testing.T) {
	t.Parallel()
	survive(t, forgets, func(t *testing.T) system {
		t.Helper()
		server := testenv.OwnEtcd(t)
		var restore func()
		return system{
			issuer: func(t *testing.T) token.Issuer { t.Helper(); return onEtcd(t, server) },
			depart: func() { restore = server.Backup() },
			fail:   func() { restore() },
		}
	})
}
