package etcdtoken_test

import (
	"context"
	"crypto/tls"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token/etcdtoken"
)

func Example() {
	issuer := etcdtoken.New(etcdtoken.Config{
		Endpoints: []string{"https://10.0.0.1:2379", "https://10.0.0.2:2379", "https://10.0.0.3:2379"},
		User:      "billing",
		Password:  os.Getenv("ETCD_PASSWORD"),
		Client:    &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{ServerName: "etcd.example.com"}}},
	})
	var marks guard.Memory // in a program, the guard of its storage
	locker := lock.Locker{Issuer: issuer, Name: "billing", TTL: 30 * time.Second, Claim: marks.Admit}
	err := locker.Hold(context.Background(), "account/42", func(context.Context) error { return nil })
	if err != nil {
		log.Print(err)
	}
}
