// Package consultoken grants tokens from the key-value store of Consul. It sends requests
// to an agent by net/http, and adds no module to a program.
//
//	iss := consultoken.New(consultoken.Config{Token: os.Getenv("CONSUL_HTTP_TOKEN")})
//	locker := lock.Locker{Issuer: iss, Name: "billing", TTL: 30 * time.Second, Claim: fence.Admit}
//
// # What it promises
//
//   - A resource has one holder at a time. Its numbers rise with every grant, and are at
//     or above the clock in units of 10 µs. A majority of the servers has each grant on
//     disk before it is returned, so it survives the loss of the leader.
//   - If a snapshot is restored, or the keys are deleted, numbers continue from the clock.
//     A holder of before then gets [token.ErrLost]: each renewal first reads the record.
//     While that read and its write are under way, a restore into new servers, which count
//     indexes again, can give the next holder's record the index that was read.
//   - Waiters are served in the order of arrival, across processes. A release hands the
//     resource to the first of them. A process watches a resource once for all its waiters.
//
// # What it costs
//
// A resource is one key, the prefix and its name, with a record in JSON: the number, the
// holder and the queue (`consul kv get -recurse fencepost/`). In the name of the key, each
// byte that is not a letter, a digit, '-' or '_' is "=" and two hexadecimal digits. An
// operation reads that record and writes it if its index has not changed. So each renewal
// is a write by the consensus of the servers, three for each lease and TTL: use a TTL of
// 30 s or more. A key is never deleted, since it has the last number.
//
// A process that waits has one blocking query for each resource. Over TLS they share the
// connection of HTTP/2. Else each takes one, and an agent accepts 200 from one address
// (limits.http_max_conns_per_client).
//
// # What it does not do
//
// It uses no session, so `consul lock` does not see its locks. Each process measures by its
// own clock for how long a record has not changed. A caller that does not wait judges a
// record that it sees for the first time by the header Date, which counts seconds: it takes
// over from a dead holder two to four seconds after the TTL. That is the clock of the agent.
// If it is the local one, it is this machine's clock: keep the machines' clocks within two
// seconds of each other.
//
// # Which servers
//
// Consul 0.7 or newer, with one datacenter for all programs that share locks. The tests run
// on 1.22.0. With ACLs, the token needs one rule:
//
//	key_prefix "fencepost/" { policy = "write" }
package consultoken
