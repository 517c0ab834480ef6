package adopt_test

import (
	"context"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token/consultoken"
	"github.com/fencepost/fencepost/token/etcdtoken"
	"github.com/fencepost/fencepost/token/k8stoken"
)

// What docs/adopt.md and the package comments write in place of a program's own lock compiles. The
// issuers have tests of their own.
var _ = []any{onEtcd, onConsul, onKubernetes}

func onEtcd(client *clientv3.Client, user, password string, fence *sqlguard.Guard) *lock.Locker {
	iss := etcdtoken.New(etcdtoken.Config{Endpoints: client.Endpoints(), User: user, Password: password})
	locks := &lock.Locker{Issuer: iss, TTL: 30 * time.Second, Claim: fence.Admit}
	return locks
}

func onConsul(fence *sqlguard.Guard) *lock.Locker {
	iss := consultoken.New(consultoken.Config{Token: os.Getenv("CONSUL_HTTP_TOKEN")})
	locks := &lock.Locker{Issuer: iss, TTL: 30 * time.Second, Claim: fence.Admit}
	return locks
}

func onKubernetes(ctx context.Context, pod string, fence *sqlguard.Guard, lead func(context.Context) error) error {
	config, err := k8stoken.InCluster()
	if err != nil {
		return err
	}
	locks := &lock.Locker{Issuer: k8stoken.New(config), Name: pod, TTL: 30 * time.Second, Claim: fence.Admit}
	err = locks.Hold(ctx, "my-operator", lead)
	return err
}
