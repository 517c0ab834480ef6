package etcdguard_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fencepost/fencepost/contrib/etcdguard"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// A program that locks by etcd's own mutex. The revision at which etcd granted it is the
// number.
func ExampleGuard_Txn() {
	withdraw := func(ctx context.Context, client *clientv3.Client, session *concurrency.Session) error {
		mutex := concurrency.NewMutex(session, "/locks/account/42")
		if err := mutex.Lock(ctx); err != nil {
			return err
		}
		defer mutex.Unlock(context.WithoutCancel(ctx))
		tok, err := token.New("account/42", mutex.Header().Revision, mutex.Key()+":"+rand.Text())
		if err != nil {
			return err
		}
		fence := &etcdguard.Guard{Client: client}
		if err := fence.Admit(ctx, tok); err != nil { // before the first read
			return err
		}
		resp, err := fence.Txn(token.NewContext(ctx, tok), "account/42").
			If(clientv3.Compare(clientv3.Value("balance/42"), "=", "100")).
			Then(clientv3.OpPut("balance/42", "58")).
			Else(clientv3.OpGet("balance/42")).Commit()
		switch {
		case errors.Is(err, guard.ErrStale):
			return fmt.Errorf("the lock has passed on, nothing was written: %w", err)
		case err == nil && !resp.Succeeded:
			return errors.New("the balance is another one")
		}
		return err
	}
	_ = withdraw
}
