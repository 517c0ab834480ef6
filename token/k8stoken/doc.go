// Package k8stoken grants tokens from Leases of Kubernetes (coordination.k8s.io/v1). It
// sends JSON to the API server by net/http, and adds no module to a program.
//
//	config, err := k8stoken.InCluster()
//	...
//	iss := k8stoken.New(config)
//	locker := lock.Locker{Issuer: iss, Name: "billing", TTL: 30 * time.Second, Claim: fence.Admit}
//
// Outside of a pod, client-go's rest.Config has what it needs:
//
//	client, err := rest.HTTPClientFor(restConfig)
//	...
//	iss := k8stoken.New(k8stoken.Config{URL: restConfig.Host, Client: client, Namespace: "billing"})
//
// # What it promises
//
//   - A resource has one holder at a time. Its numbers rise with every grant, and are at
//     or above the clock in units of 10 µs.
//   - If Leases are deleted, or the cluster's etcd is restored, numbers continue from the
//     clock. A holder of before then gets [token.ErrLost]: each write first loads the Lease,
//     since its resourceVersion repeats after a restore.
//   - Waiters are served in the order of arrival, across processes. A release hands the
//     resource to the first of them. A process watches a Lease once for all its waiters.
//   - The Lease is one of client-go's LeaseLock, both ways. An elector and a Locker exclude
//     each other on one Lease, so that an operator can be moved from one to the other by a
//     rolling update. Their identities must differ: equal ones are one holder to both.
//
// # What it costs
//
// A resource is one Lease. An operation reads it, and writes it by a merge patch with its
// resourceVersion. So each renewal is a read and a write by the consensus of the cluster's
// etcd, three for each lease and TTL: use a TTL of 30 s or more, and few locks. A Lease is
// never deleted, since its annotations have the last number and the queue. Its other
// annotations, labels and owners stay.
//
// A name that is legal for a Lease (DNS: lower-case letters, digits, '-', '.') is its name.
// Another one is shortened to what is legal in it, with a hash: "Account/42" is
// account-42.fencepost-8d9bcf…, and the annotation fencepost.dev/resource has the name.
//
//	kubectl get leases
//	kubectl get lease billing -o jsonpath='{.metadata.annotations.fencepost\.dev/number}'
//
// # What it does not do
//
// Each process measures by its own clock for how long a Lease has not changed. A caller that
// does not wait judges a Lease that it sees for the first time by the header Date, which
// counts seconds: it takes over from a dead holder two to four seconds after the TTL. It
// does not take over from a dead elector of client-go, whose renewTime is that machine's
// clock; a caller that waits does. A term of an elector has no number, so guards refuse
// its writes only if it mints one.
//
// # Which rights
//
// The role of the service account, in the namespace of the Leases:
//
//	rules:
//	- apiGroups: [coordination.k8s.io]
//	  resources: [leases]
//	  verbs: [get, watch, create, patch] # and list, for Issuer.Locks
//
// The tests run on the kube-apiserver 1.36.2, beside client-go 0.36.2.
package k8stoken
