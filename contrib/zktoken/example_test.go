package zktoken_test

import (
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencepost/fencepost/contrib/zktoken"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
)

// What docs/adopt.md shows, without its checks of errors, compiles.
var _ = func(servers []string, dialTLS zk.Dialer, user, password string, fence *guard.Memory) (*lock.Locker, error) { //nolint:ineffassign,staticcheck // see above
	conn, _, err := zk.Connect(servers, 10*time.Second, zk.WithDialer(dialTLS))
	err = conn.AddAuth("digest", []byte(user+":"+password))
	iss := zktoken.New(zktoken.Config{Conn: conn, ACL: zk.AuthACL(zk.PermAll)})
	locks := &lock.Locker{Issuer: iss, TTL: 30 * time.Second, Claim: fence.Admit}
	return locks, err
}
