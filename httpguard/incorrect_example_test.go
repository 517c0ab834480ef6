package httpguard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
)

// Do not do this. The middleware compares the token, and the handler then
// writes without any guard: it believes that what was admitted a moment ago
// may still write. Inside one process the window sees to that. But a service
// has replicas, and none of them knows who is at work in another one:
//
//	replica 1, older (33)  admitted ······ stopped ······ writes 100: nobody compares
//	replica 2, newer (34)             admitted, writes 250
//
// Both are told 200, and the newer holder's write is gone, although the two
// replicas share their marks. The check came before the write, and only a check
// within the write would have helped: see the example of [httpguard.Middleware]
// for the same handler, put right.
func Example_incorrect() {
	var balance atomic.Value // unguarded: whoever comes last has written
	looked, resume := make(chan struct{}), make(chan struct{})
	write := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.PathValue("balance") == "100" {
			close(looked)
			<-resume // a collection, a stopped machine, a slow disk
		}
		balance.Store(r.PathValue("balance")) // WRONG: no token, no comparison
	})
	marks := &guard.Memory{} // a table, say, that the replicas share
	replica := func() *httptest.Server {
		guarded := httpguard.Middleware{
			Resources: httpguard.Pattern("account/{id}"), Store: marks,
			Window: &httpguard.Window{}, // of its process
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
