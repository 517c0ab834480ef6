// Package natstoken grants tokens from NATS, over a key-value bucket of JetStream. It is a
// module of its own, so that only its users require the NATS client.
//
//	conn, err := nats.Connect(url, nats.MaxReconnects(-1))
//	js, err := jetstream.New(conn)
//	bucket, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "fencepost", Replicas: 3})
//	iss := natstoken.New(js, bucket)
//	locker := lock.Locker{Issuer: iss, Name: "billing", TTL: 30 * time.Second, Claim: fence.Admit}
//
// # What it promises
//
//   - A resource has one holder at a time, if the servers lose no write that they have
//     acknowledged. Its numbers rise with every grant, and are at or above the clock in
//     units of 10 µs.
//   - If the servers lose writes, or the bucket is deleted, numbers continue from the clock.
//     A holder of before then gets [token.ErrLost].
//   - Waiters are served in the order of arrival, across processes. A release hands the
//     resource to the first of them. A process watches a resource once for all its waiters.
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
// # What it costs
//
// A resource is one key with a record in JSON: the number, the holder and the queue
// (`nats kv watch fencepost`). In a key, each byte of the name that is not a letter, a digit,
// '-' or '_' is "=" and two hexadecimal digits. Each operation reads the record and then
// writes it, since the revisions of a bucket that was deleted repeat. So each renewal is a
// read, and a write by the consensus of the replicas, three for each lease and TTL: use a TTL
// of 30 s or more.
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
