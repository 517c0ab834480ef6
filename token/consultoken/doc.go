// Package consultoken grants tokens from the key-value store of Consul. It sends requests
// to an agent by net/http, and adds no module to a program.
//
//	iss := consultoken.New(consultoken.Config{Token: os.Getenv("CONSUL_HTTP_TOKEN")})
//	locker := lock.Locker{Issuer: iss, Name: "billing", TTL: 30 * time.Second, Claim: fence.Admit}
//
// docs/locks.md has what it promises and what it costs, under "Locks in a store with a
// compare-and-swap". It uses no session, so `consul lock` does not see its locks.
//
// A resource is one key (`consul kv get -recurse fencepost/`). An operation reads it, and
// writes it if its index has not changed. A majority of the servers has each grant on disk
// before it is returned. After the restore of a snapshot, a holder of before gets
// [token.ErrLost]. While a read and its write are under way, a restore into new servers,
// which count indexes again, can give the next holder's record the index that was read.
//
// A process that waits has one blocking query for each resource. Over TLS they share the
// connection of HTTP/2. Else each takes one, and an agent accepts 200 from one address
// (limits.http_max_conns_per_client).
//
// The server's clock is that of the agent. If it is the local one, it is this machine's
// clock: keep the machines' clocks within two seconds of each other.
//
// # Which servers
//
// Consul 0.7 or newer, with one datacenter for all programs that share locks. The tests run
// on 1.22.0. With ACLs, the token needs one rule:
//
//	key_prefix "fencepost/" { policy = "write" }
package consultoken
