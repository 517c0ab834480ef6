package httppoint_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/simulations/httppoint"
)

// Handler wraps the whole service, and Transport is the base of the client's own.
func Example() {
	guarded := httpguard.Middleware{Resources: httpguard.Pattern("account/{id}")}
	mux := http.NewServeMux()
	mux.Handle("/accounts/{id}", guarded.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})))
	service := httptest.NewServer(httppoint.Handler(mux))
	defer service.Close()

	client := &http.Client{Transport: httpguard.Transport{
		Base:  httppoint.Transport{},
		Hosts: []string{service.Listener.Addr().String()},
	}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(service.URL + "/accounts/42")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 204 No Content
}
