// Package httppoint extends a simulation over HTTP to a service in the same test process.
//
// # What it is
//
// [Transport] is the client's half. It reports to the simulation before a request is sent
// and when its response has arrived, so that the client can be stopped there, and it adds
// an id to the request. [Handler] is the server's half. It finds the client's simulation by
// that id, and adds it to the request's context. The service can then be stopped too, at
// the steps of its guards and of its drivers' tracers. In the unguarded twin the service's
// guards refuse nothing.
//
//	ctx ──Transport──▶ Fencepost-Simulation ──Handler──▶ r.Context()
//
// # What it promises
//
// Outside of a simulation neither half changes anything. Handler ignores an id that this
// process did not create, or whose simulation has ended, and serves the request unchanged.
// Ids cannot be guessed. A request that takes longer than its client waits still belongs
// to the simulation.
//
// # What it does not do
//
// It does not carry tokens. httpguard's Transport does; use either as the other's Base. It
// does not reach another process.
//
//	service := httptest.NewServer(httppoint.Handler(mux))
//	client := &http.Client{Transport: httpguard.Transport{
//		Base:  httppoint.Transport{},
//		Hosts: []string{service.Listener.Addr().String()},
//	}}
//
// # Where next
//
// Package simulations for the tests that use it.
package httppoint
