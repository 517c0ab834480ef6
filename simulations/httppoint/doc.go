// Package httppoint lets a simulation reach through HTTP into a service of the
// same test process.
//
// # What it is
//
// [Transport] is the client's half. It tells the simulation of each request
// before it is sent and when its answer is there, so that the client can be held
// up there, and gives the request an id. [Handler] is the server's half: by the
// id it makes the request's context part of the simulation that the client's is
// part of. What the service does under it can then be held up too, at the steps
// of its guards and of the tracers of its drivers; and in the unguarded twin the
// service's guards refuse nothing.
//
//	ctx ──Transport──▶ Fencepost-Simulation ──Handler──▶ r.Context()
//
// # What it promises
//
// Outside of a simulation neither half changes anything. An id that the process
// did not make, or that belongs to a simulation that is over, means nothing: the
// request is served as it came. Ids cannot be guessed. A request that is on its
// way for longer than its client waits is still part of the simulation.
//
// # What it does not
//
// It does not carry the token: that is httpguard's, whose Transport goes around
// this one or inside it. It does not reach another process.
//
//	service := httptest.NewServer(httppoint.Handler(mux))
//	client := &http.Client{Transport: httpguard.Transport{
//		Base:  httppoint.Transport{},
//		Hosts: []string{service.Listener.Addr().String()},
//	}}
//
// # Where next
//
// Package simulations for what is done with it.
package httppoint
