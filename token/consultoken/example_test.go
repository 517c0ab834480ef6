package consultoken_test

import (
	"context"
	"crypto/tls"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token/consultoken"
)

func Example() {
	issuer := consultoken.New(consultoken.Config{
		URL:    "https://127.0.0.1:8501",
		Token:  os.Getenv("CONSUL_HTTP_TOKEN"),
		Client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{ServerName: "localhost"}, ForceAttemptHTTP2: true}},
	})
	var marks guard.Memory // in a program, the guard of its storage
	locker := lock.Locker{Issuer: issuer, Name: "billing", TTL: 30 * time.Second, Claim: marks.Admit}
	err := locker.Hold(context.Background(), "account/42", func(context.Context) error { return nil })
	if err != nil {
		log.Print(err)
	}
}
