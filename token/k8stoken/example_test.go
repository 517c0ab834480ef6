package k8stoken_test

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token/k8stoken"
)

func Example() {
	config, err := k8stoken.InCluster()
	if err != nil {
		log.Print(err)
		return
	}
	var marks guard.Memory // in a program, the guard of its storage
	locker := lock.Locker{Issuer: k8stoken.New(config), Name: os.Getenv("HOSTNAME"), TTL: 30 * time.Second, Claim: marks.Admit}
	err = locker.Hold(context.Background(), "my-operator", func(context.Context) error { return nil })
	if err != nil {
		log.Print(err)
	}
}
