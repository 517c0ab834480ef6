package register

import (
	"context"
	"time"
)

// Store keeps one [Record] for each key. A key is the name of a resource: any valid UTF-8
// of up to [token.MaxNameBytes] bytes. [Name] encodes it for stores whose keys have syntax.
//
// # What must hold
//
// Swap must be linearizable for each key, and durable before it returns. It must compare
// and write in one atomic step of the store. Load, Watch, and the entry that a Swap returns
// if it has lost, may be stale without harm to a holder. But a stale Load shows a lock as
// held that was released: if the store has replicas that can be behind, ask its leader. A
// Store deletes no record and lets none expire, since the record has the last number. It
// must be safe for concurrent use, and each call must return soon after ctx is done.
//
// # Versions
//
// A version identifies one write of one key: the next write of the key has another
// version, even if the record is the same. "" is the version of a key without a record.
// Versions are compared for equality only.
//
// If the store can be restored from a backup, or be emptied, its versions may repeat: the
// holder of before then has the version of another holder's record. Such a Store either
// compares the written bytes too, which it can carry in Version, or sets
// [Issuer.LoadFirst].
//
// # Errors
//
//   - An error that wraps [token.ErrUnreachable]: the store did not answer, is starting,
//     or takes no writes for now. A Locker that waits repeats the call.
//   - Any other error: a retry cannot help, as for a wrong password, a refused right, a
//     record that cannot be read. It starts with the driver's package, as in "etcdtoken:".
//     If ctx has ended, the Issuer returns the context's cause, whatever the error is.
//
// After any error of Swap its outcome is unknown: the record may have been written, and a
// Swap that is still on its way may be written later, as long as the version is still old.
// A Store must not repeat it. If a client library below it repeats one whose first reply
// was lost, a Swap that was written can report that it has lost, and a Release can return
// [token.ErrLost] although it was the release.
type Store interface {
	// Load returns the record of key, or an Entry without Version if there is none.
	Load(ctx context.Context, key string) (Entry, error)

	// Swap writes next if the version of the record is old. It returns next with its new
	// version, and true. If the version is another, nothing was written, and Swap returns
	// the record as it is now, or as Load returns it, and false.
	Swap(ctx context.Context, key, old string, next Record) (now Entry, swapped bool, err error)

	// Watch returns an entry of key whose version is not seen, as soon as there is one. It
	// may be an older one, or one of several newer ones; if the record was deleted by hand,
	// it is an Entry without Version. A Watch blocks until ctx is done. If it can no longer
	// learn of a change (its connection broke, its history was compacted), it must return
	// an error soon: the Issuer then loads, and watches again after a pause. An event that
	// is late or lost makes a hand-over late, by the lease's ttl at most, and a waiter that
	// was handed the lock loses its place.
	Watch(ctx context.Context, key, seen string) (Entry, error)

	// List calls visit with each key that begins with prefix and with its entry, which may
	// be stale, until visit returns false. It is for operators: see [token.Inspector].
	List(ctx context.Context, prefix string, visit func(key string, e Entry) bool) error
}

// Clocker is a [Store] whose replies have no clock, and which asks its servers for it. The
// Issuer calls Clock about once a minute.
type Clocker interface {
	// Clock returns the server's clock between the request and the reply.
	Clock(ctx context.Context) (time.Time, error)
}

// Entry is a record as it was read or written.
type Entry struct {
	Record
	// Version identifies this write of the record. It is empty if there is none.
	Version string
	// Clock is the clock of the server between the request and the reply, such as HTTP's
	// Date. A reply that was sent earlier, as the head of a stream of events, has none. The
	// servers' clocks must agree within two seconds, resolution included. Zero if the reply
	// has none. Without any clock, a caller that does not wait and has not seen the holder
	// before takes over from no dead holder.
	Clock time.Time
}
