// Package process puts somebody's own code to the test with real processes: one
// that holds the lock is stopped, its lease expires, another takes over and
// writes, and the first one wakes up.
//
// # What it is
//
// What [simulations.Run] does with goroutines and every interleaving, this does
// with the one interleaving that matters most, with nothing simulated. The
// writers are this very test binary, started again. A is stopped by the kernel
// (SIGSTOP), by its own Go runtime (a stop-the-world, held open at will), or
// for ever (SIGKILL); at an exact step of its work, or anytime.
//
//	the test               writer A               writer B
//	Run              ───▶  acquires, reads
//	                       stopped          z     asks, waits
//	                                        z     acquires, reads
//	                                        z     writes, is acknowledged
//	continues A      ───▶  writes with what it read
//	judges           ◀───  refused
//
// # What it promises
//
// The same rounds are run with the guards' refusals ignored, and there every
// write that came too late must be accepted: a simulation that cannot fail
// proves nothing. Everything that both writers did is put down and held against
// all rules ([history.Rules]). A round that could not be carried out is an
// error, never a figure. Writers die with the test.
//
// # What it does not
//
// It needs an issuer and a resource that several processes can reach: servers,
// a file. What is stopped is a writer; a service that writes for it must run
// elsewhere, in the test for example. It drives no more than two writers, and
// stops one of them at a time. A stop-the-world takes Linux; where there is no
// SIGSTOP there are no rounds.
//
//	func TestMain(m *testing.M) {
//		process.Serve(m, process.Subjects{"accounts": openAccounts})
//		os.Exit(m.Run())
//	}
//
//	func TestAccountsSurviveThePause(t *testing.T) {
//		process.Run(t, process.Options{Subject: "accounts", Conf: databaseURL, At: "begin"})
//	}
//
// # Where next
//
// Package simulations for subjects, package history for the rules and how a
// verdict reads.
package process
