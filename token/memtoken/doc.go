// Package memtoken grants tokens from memory. It is an issuer for tests and for resources
// of one process, and the reference with which the other issuers are compared.
//
//	locker := lock.Locker{Issuer: new(memtoken.Issuer), Name: "billing", Claim: fence.Admit}
//
// # What it promises
//
//   - A resource has one holder at a time, and its numbers rise with every grant.
//   - Waiters are granted the resource in the order of arrival, for the whole ttl.
//   - Numbers start at the clock, so they rise across restarts if the machine's clock
//     does.
//
// # What it does not do
//
// Its memory ends with the process, and its locks exclude only callers in the same
// process. For locks between processes, use package redistoken or pgtoken. An Issuer
// keeps the last number of every resource it has ever granted, so it grows with the
// number of resources.
package memtoken
