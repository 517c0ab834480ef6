// Package natstoken grants tokens from NATS, over a key-value bucket of JetStream. It is a
// module of its own, so that only its users require the NATS client.
//
//	conn, err := nats.Connect(url, nats.MaxReconnects(-1))
//	js, err := jetstream.New(conn)
//	bucket, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "fencepost", Replicas: 3})
//	iss := natstoken.New(js, bucket)
//	locker := lock.Locker{Issuer: iss, Name: "billing", TTL: 30 * time.Second, Claim: fence.Admit}
//
// docs/locks.md has what it promises and what it costs, under "Locks in a store with a
// compare-and-swap". A resource is one key (`nats kv watch fencepost`). An operation reads it,
// and writes it if its revision has not changed. If the bucket is deleted and made again, a
// holder of before gets [token.ErrLost].
//
// # The settings of the servers
//
// JetStream acknowledges a write before it is on disk, and syncs its files every two minutes.
// A power cut can take a grant with it, and then two holders run; the guard refuses the older
// one. Let the servers sync each write before they acknowledge it. A client cannot read that
// setting, so natstoken does not check it.
//
//	jetstream { sync_interval: always }
//
// Use a bucket of its own, in files, with three or five replicas, and without a TTL: its keys
// have the last numbers, and must not expire. Calls return an error if the bucket has a TTL.
//
// # Which servers
//
// The tests run on NATS 2.12, alone and as a cluster of three. TLS and credentials are those
// of the connection. Its user needs these rights, and those of its inbox:
//
//	publish: $KV.fencepost.>  $JS.FC.KV_fencepost.>
//	         $JS.API.STREAM.INFO.KV_fencepost  $JS.API.STREAM.MSG.GET.KV_fencepost
//	         $JS.API.CONSUMER.CREATE.KV_fencepost.>  $JS.API.CONSUMER.DELETE.KV_fencepost.>
package natstoken
