package register

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/lockstate"
	"github.com/fencepost/fencepost/token"
)

// Record is the state of one resource, as it is stored: a Store encodes it as JSON.
type Record struct {
	Number int64  `json:"number"`           // the last one
	Holder string `json:"holder,omitempty"` // empty if the resource is free
	TTL    int64  `json:"ttl_ms,omitempty"` // of the lease, from Beat on
	// Beat rises with each grant, renewal and release. It does not change with the queue: a
	// waiter that joins is no sign of life of the holder. It counts the clock in µs, so that
	// it does not repeat after the record was lost.
	Beat int64 `json:"beat"`
	// At is the server's clock at Beat in ms, or later. It is zero if it is not known.
	At int64 `json:"at_ms,omitempty"`
	// Unconfirmed is the process of the holder that was handed the lock and has not yet
	// confirmed it. It is empty if the holder has acquired, confirmed or renewed.
	Unconfirmed string   `json:"unconfirmed,omitempty"`
	Queue       []Waiter `json:"queue,omitempty"` // in the order of arrival
}

// Waiter is a place in the queue.
type Waiter struct {
	Holder  string `json:"holder"`
	Process string `json:"process"`    // the Issuer in whose process it waits
	Confirm int64  `json:"confirm_ms"` // how long it has to confirm a lock that it is handed
}

// draft is a record as the decisions of lockstate change it, at now.
type draft struct {
	lockstate.Lock
	now     time.Time
	record  Record
	before  token.Grant
	beats   bool        // the holder has acquired or renewed, even if its lease ends when it did
	handed  token.Grant // what the decision has handed to a waiter, which process is to confirm
	process string
	waiters map[*lockstate.Waiter]Waiter
}

// newDraft returns a draft of e, whose lease lasts for left from now.
func newDraft(resource string, e Entry, now time.Time, left time.Duration) *draft {
	d := &draft{Lock: lockstate.Lock{Resource: resource, Number: e.Number}, now: now, record: e.Record, waiters: map[*lockstate.Waiter]Waiter{}}
	if e.Holder != "" {
		d.Grant = token.Grant{Token: token.Token{Resource: resource, Number: e.Number, Holder: e.Holder}, Until: now.Add(left)}
	}
	d.before = d.Grant
	for _, w := range e.Queue {
		// A process that has not confirmed in time is dead, and so are all its waiters. If it
		// was only slow, they join again.
		if e.Unconfirmed == "" || e.Unconfirmed != w.Process || left > 0 {
			d.wait(w)
		}
	}
	return d
}

// place returns the place of holder in the queue, or -1.
func (d *draft) place(holder string) int {
	return slices.IndexFunc(d.Queue, func(w *lockstate.Waiter) bool { return w.Holder == holder })
}

// wait adds w to the queue.
func (d *draft) wait(w Waiter) {
	in := &lockstate.Waiter{Holder: w.Holder, TTL: time.Duration(w.Confirm) * time.Millisecond}
	in.Served = func(g token.Grant, _ error) { d.handed, d.process = g, w.Process }
	d.waiters[in] = w
	d.Queue = append(d.Queue, in)
}

// leave removes holder from the queue. If it was handed the lock, the next waiter is.
func (d *draft) leave(holder string) {
	w := &lockstate.Waiter{Holder: holder}
	if place := d.place(holder); place >= 0 {
		w = d.Queue[place]
	}
	d.Leave(w, d.now)
}

// next returns the record that the decision has made. at is the server's clock, zero if it
// is not known.
func (d *draft) next(at time.Time) (r Record, changed bool) {
	r = d.record
	r.Number, r.Queue = d.Number, nil
	for _, w := range d.Queue {
		r.Queue = append(r.Queue, d.waiters[w])
	}
	if d.Grant == d.before && !d.beats {
		return r, r.Number != d.record.Number || !slices.Equal(r.Queue, d.record.Queue)
	}
	r.Holder, r.TTL, r.At, r.Unconfirmed = "", 0, 0, ""
	r.Beat = max(r.Beat+1, d.now.UnixMicro())
	if !at.IsZero() {
		r.At = at.UnixMilli()
	}
	if !d.Grant.Until.IsZero() {
		r.Holder, r.TTL = d.Grant.Token.Holder, milliseconds(d.Grant.Until.Sub(d.now))
	}
	if d.Grant == d.handed {
		r.Unconfirmed = d.process
	}
	return r, true
}

func milliseconds(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

var escape = strings.NewReplacer("+", "=20", ".", "=2E", "~", "=7E", "%", "=")

// Name returns key with each byte that is not a letter, a digit, '-' or '_' as "=" and two
// hexadecimal digits, for stores whose keys have syntax.
func Name(key string) string { return escape.Replace(url.QueryEscape(key)) }

// Key returns the key of which Name has made name. ok is false if there is none.
func Key(name string) (key string, ok bool) {
	key, err := url.PathUnescape(strings.ReplaceAll(name, "=", "%"))
	return key, err == nil && Name(key) == name
}
