// Package process tests your own code with real processes. The process that holds the lock
// is stopped, its lease expires, a successor acquires the lock and writes, and the first
// process resumes.
//
// # What it is
//
// [simulations.Run] performs many interleavings with goroutines. This package performs the
// most important one with nothing simulated. The writers are the test binary itself,
// started again. Writer A is stopped (SIGSTOP) or killed (SIGKILL), at a given step of its
// work or at a random moment.
//
//	the test               writer A               writer B
//	Run              ───▶  acquires, reads
//	                       stopped          z     requests the lock, waits
//	                                        z     acquires, reads
//	                                        z     writes, is acknowledged
//	resumes A        ───▶  writes with what it read
//	checks           ◀───  refused
//
// # What it promises
//
// A pass means something: the same rounds run with the guards' refusals ignored (the
// unguarded twin), and there every late write must be accepted. The operations of both
// writers are recorded and checked against all rules, which docs/testing.md lists. A round
// that could not be performed is an error, and is not counted. The writers end with the
// test.
//
// # What it does not do
//
// It needs an issuer and a resource that several processes can reach: servers, or a file.
// Only a writer is stopped; a service that writes for it must run elsewhere, for example
// in the test. There are two writers, and A is the one that is stopped. On a system without
// SIGSTOP, Run fails.
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
// Package simulations for subjects, docs/testing.md for the rules and for reading a
// verdict.
package process
