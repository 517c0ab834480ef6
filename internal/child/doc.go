// Package child starts a process and talks to it, stops it, lets it go on, and
// ends it. It is what simulations with real processes are made of.
//
//	parent                                 child
//	Start(Command{…})            ───▶      json.NewDecoder(os.Stdin)
//	Send(order)                  ───▶
//	Next(ctx)                    ◀───      json.NewEncoder(os.Stdout)
//	Stop, Stands, Continue                 runs, stands, runs on
//	                                       StopThread stands from the inside
//	World.Stands, World.Drain              StopWorld stops Go, not the process
//	Kill, End                              is gone
//
// # What it promises
//
// A child dies with its parent, stopped or not (Linux; elsewhere see
// attributes); what it started itself does not. What it said before it died is
// heard, down to its last whole line. Of a child that is gone an error says how,
// and the last that it wrote to its standard error.
//
// # What it does not
//
// It sets no bound to anything that has no context: a child that reads nothing
// keeps Send waiting once the pipe is full, a stopped one too.
package child
