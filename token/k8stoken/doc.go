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
// docs/locks.md has what it promises and what it costs, under "Locks in a store with a
// compare-and-swap".
//
// # The Lease
//
// A resource is one Lease. An operation reads it, and writes it by a merge patch with its
// resourceVersion. After a restore of the cluster's etcd, a holder of before gets
// [token.ErrLost]. The annotations have the number and the queue. Other annotations, labels
// and owners stay.
//
// It is a Lease of client-go's LeaseLock too, both ways. An elector and a Locker exclude each
// other on it, so that an operator can be moved from one to the other by a rolling update.
// Their identities must differ: equal ones are one holder to both. A caller that does not
// wait takes over from no dead elector, whose renewTime is that machine's clock; a caller
// that waits does. A term of an elector has no number, so guards refuse its writes only if
// it mints one.
//
// A name that is legal for a Lease (DNS: lower-case letters, digits, '-', '.') is its name.
// Another one is shortened to what is legal in it, with a hash: "Account/42" is
// account-42.fencepost-8d9bcf…, and the annotation fencepost.dev/resource has the name.
//
//	kubectl get leases
//	kubectl get lease billing -o jsonpath='{.metadata.annotations.fencepost\.dev/number}'
//
// # Objects
//
// [Transport] stamps the objects that a leader writes with its token, and admission policies
// make the API server refuse an older leader's. docs/kubernetes.md begins with what they do
// not fence.
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
