// Package lab is the map of the code that tests Fencepost beyond its unit tests. It has
// no code itself. No package outside of the lab imports it, and it is not released. `make
// verify` runs all of it in a short form.
//
//   - proof: a model of the protocol that SPIN searches. `make proof`.
//   - durability: acknowledged writes that must not be lost. `make acknowledged`.
//   - failures: the issuers, with servers that are killed, cut off or promoted, and writes
//     that are settled or repeated after such a failure. `make failures`.
//   - cut: each connection of the guards, cut at each byte. `make cuts`.
//   - kubernetes: a module of its own. k8stoken on a real API server, beside client-go's
//     electors.
//   - release: a rehearsal of a release. See RELEASING.md.
//   - bench, stores and containers are modules of their own: ratios to baselines (`make
//     bench`), the issuers over a store with a compare-and-swap beside the locks of their
//     clients, and the tests on servers in containers.
package lab
