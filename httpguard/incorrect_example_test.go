package httpguard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
)

// Do not do this. The middleware compares the token, and the handler then writes without
// a guard, although its token may be stale by then. Inside one process InFlight prevents
// that, but a replica does not see the requests of another replica:
//
//	replica 1, older (33)  admitted ······ stopped ······ writes 100: no mark is compared
//	replica 2, newer (34)             admitted, writes 250
//
// Both requests get 200, and the newer holder's write is lost, although the replicas
// share their marks. The check came before the write; the token must be compared within
// the write. The example of [httpguard.Middleware] has the same handler, corrected.
func Example_incorrect() {
	var balance atomic.Value // unguarded: the last write wins
	looked, resume := make(chan struct{}), make(chan struct{})
	write := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.PathValue("balance") == "100" {
			close(looked)
			<-resume // a collection, a stopped machine, a slow disk
		}
		balance.Store(r.PathValue("balance")) // WRONG: no token, no comparison
	})
	marks := &guard.Memory{} // stands for a table that the replicas share
	replica := func() *httptest.Server {
		guarded := httpguard.Middleware{
			Resources: httpguard.Pattern("account/{id}"), Store: marks,
			InFlight: &httpguard.InFlight{}, // one for each process
		}
		mux := http.NewServeMux()
		mux.Handle("PUT /accounts/{id}/{balance}", guarded.Wrap(write))
		return httptest.NewServer(mux)
	}
	one, two := replica(), replica()
	defer one.Close()
	defer two.Close()

	older := make(chan string)
	go func() { older <- put(one, "100", `33;r="account/42";h="a"`) }()
	<-looked
	fmt.Println("newer:", put(two, "250", `34;r="account/42";h="b"`))
	close(resume)
	fmt.Println("older:", <-older)
	fmt.Println("balance:", balance.Load())
	// Output:
	// newer: 200 OK
	// older: 200 OK
	// balance: 100
}
