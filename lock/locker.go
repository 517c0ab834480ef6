package lock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/token"
)

const (
	defaultTTL = 10 * time.Second
	// minSafetyMargin is the least default margin. It covers the scheduling latency of a
	// busy machine: the timer that ends a lease may fire this much too late.
	minSafetyMargin = 10 * time.Millisecond
)

// Locker holds resources for a program. It acquires a token from Issuer, waits if another
// holder has the resource, renews the lease while the work runs, and releases it. Issuer
// and Claim are required. A Locker is cheap to create and safe for concurrent use. Its
// fields must not change after first use.
type Locker struct {
	// Issuer grants the tokens. Lockers with the same issuer can nest: see Hold.
	Issuer token.Issuer
	// Name is the part of the holder, in errors and marks, that says what the program does. A
	// holder is host:process/Name:sequence:random, as web-1:4711/billing:7:c2f1a0b3d4e59687:
	// its beginning says where the process is. The host is left out if the holder would be too
	// long, as it can be if Name has more than 100 bytes. Empty means the name of the running
	// program.
	Name string
	// Claim raises the guard's mark. It is usually the Admit of the guard that the work
	// writes through. It is called once for each new token, after the lease's renewal has
	// started and before the work begins. If Claim returns an error, the resource is
	// released and the work does not run.
	//
	// The claim makes a read-modify-write safe. Without it, a predecessor's late write
	// can be applied between this holder's read and its write.
	//
	// If the issuer has raised the guard's marks together with the grant (see
	// [token.Grant.Claimed]), Claim is still called, and the guard's Admit sends nothing.
	//
	// For a nested Hold, Claim is called if the lease was acquired through another
	// Locker. A copy of a Locker is another Locker. If that claim fails, the outer lease
	// does not change, and the next nested Hold claims again. Nested Holds that run at
	// the same time may each claim. Do not start such a nested Hold inside a transaction
	// that was the first to admit the token: the claim uses another connection and waits
	// for that transaction to end.
	//
	// If Claim is nil and DangerouslyWithoutClaim is not set, every call returns
	// [ErrNoClaim].
	Claim func(ctx context.Context, tok token.Token) error
	// DangerouslyWithoutClaim allows a nil Claim. Use it only for work that writes
	// nothing that it has read, or that claims by itself before its first read. Any other
	// read-modify-write can overwrite a predecessor's late write. False means that Claim
	// is required.
	DangerouslyWithoutClaim bool
	// TTL is how long the resource stays held if this process dies. The lease is renewed
	// three times in each TTL. Zero means 10 s. TTL must be at least twice the
	// SafetyMargin, and at least 20 ms if SafetyMargin is zero.
	TTL time.Duration
	// WaitTimeout bounds the wait for a resource. It does not bound the work. In HoldAll,
	// each resource has its own wait. The wait starts again if a refused claim has
	// recovered the issuer. If the issuer does not reply, the call returns up to 1.5 s
	// after the end: half a second for a request that was sent, whose grant is used, and a
	// second to leave the queue. Zero means that only the context bounds the wait.
	// Without a bound, two programs that take two locks in opposite orders can wait for
	// each other for ever, since both renew.
	//
	// During a bounded wait, a call that returns [token.ErrUnreachable] is repeated:
	// after about 2 ms, and then after growing, random pauses of about a second at most.
	// When the wait ends, the error is ErrWaitTimeout (or the context's cause), joined
	// with the last ErrUnreachable. All other errors are returned at once. ErrUnreachable
	// is returned at once too if NoWait is set, or if neither WaitTimeout nor a deadline
	// of the context bounds the wait.
	WaitTimeout time.Duration
	// NoWait makes Hold and Acquire return [token.ErrHeld] at once if another holder has
	// the resource. WaitTimeout then bounds the single attempt. False means wait.
	NoWait bool
	// HoldAtLeast keeps the resource held for this long after it was granted, even if it
	// is released earlier. Use it for scheduled jobs: a machine whose clock is behind
	// then does not repeat a short job. After the release, no program uses the resource
	// for the rest of that time. A waiter may notice the end up to a TTL late. If the
	// process dies before it releases, the TTL ends the lease. Zero means that a release
	// frees the resource at once.
	HoldAtLeast time.Duration
	// HoldAtMost ends the lease this long after it was granted, although it could be
	// renewed, so that a hung job does not hold its resource for ever. The context then
	// ends with [token.ErrLost], and the resource is free when the TTL has passed. Zero
	// means no bound.
	HoldAtMost time.Duration
	// SafetyMargin is how long before the issuer's expiry the lease's context ends. It
	// must cover the latency of this process's scheduler and the drift of its clock
	// during one TTL. Zero means a tenth of the TTL, and at least 10 ms. It must not be
	// more than half of the TTL: the first renewal is sent after a third of the TTL, and
	// its reply must arrive before the context ends.
	SafetyMargin time.Duration
	// Hooks are called on events of a lease. The zero Hooks only logs two warnings: see
	// RenewFailed and Recovered.
	Hooks Hooks
}

// settings are a Locker's settings with the defaults filled in.
type settings struct {
	name              string
	ttl, safetyMargin time.Duration
	waitTimeout       time.Duration
	noWait            bool
	holdAtLeast       time.Duration
	holdAtMost        time.Duration
}

func (l *Locker) settings(resource string) (settings, error) {
	t := settings{name: l.Name, ttl: l.TTL, safetyMargin: l.SafetyMargin, waitTimeout: l.WaitTimeout, noWait: l.NoWait, holdAtLeast: l.HoldAtLeast, holdAtMost: l.HoldAtMost}
	if t.name == "" {
		t.name = program
	}
	if t.ttl == 0 {
		t.ttl = defaultTTL
	}
	if t.safetyMargin == 0 {
		t.safetyMargin = max(t.ttl/10, minSafetyMargin)
	}
	switch {
	case l.Issuer == nil:
		return t, errors.New("lock: Locker has no Issuer")
	case l.Claim == nil && !l.DangerouslyWithoutClaim:
		return t, ErrNoClaim
	case t.ttl < 0 || t.safetyMargin < 0 || t.waitTimeout < 0 || t.holdAtLeast < 0 || t.holdAtMost < 0:
		return t, errors.New("lock: Locker has a negative duration")
	case t.holdAtMost > 0 && t.holdAtLeast > t.holdAtMost:
		return t, fmt.Errorf("lock: Locker's HoldAtLeast %s is more than its HoldAtMost %s", t.holdAtLeast, t.holdAtMost)
	case t.safetyMargin > t.ttl/2:
		return t, fmt.Errorf("lock: Locker's SafetyMargin %s is more than half of its TTL %s", t.safetyMargin, t.ttl)
	}
	return t, token.ValidateResource(resource)
}

var (
	// ErrWaitTimeout is returned when [Locker.WaitTimeout] has passed. It is joined with
	// [token.ErrHeld], or with [token.ErrUnreachable] if the issuer could not be reached
	// at the end of the wait.
	ErrWaitTimeout = errors.New("lock: wait timed out")
	// ErrNotReleased is returned when the work is done and the issuer did not confirm the
	// release. The resource may stay held until its TTL ends.
	ErrNotReleased = errors.New("lock: not released")
	// ErrNotLeased is returned when the context carries a token of the resource that is
	// not a lease of this issuer: a token from a request, or another issuer's lease.
	// Acquire would wait for its own caller.
	ErrNotLeased = errors.New("lock: the context's token is not a lease of this issuer")
	// ErrNoClaim is returned when a [Locker] has neither a Claim nor
	// DangerouslyWithoutClaim. Nothing was acquired.
	ErrNoClaim = errors.New("lock: Locker has no Claim: without one, a read-modify-write can be lost; " +
		"set Claim to the guard's Admit, or DangerouslyWithoutClaim")
)

var (
	program  = filepath.Base(os.Args[0])
	host     = hostName()
	sequence atomic.Uint64
)

// hostName returns the machine's name, or "localhost" if it has none that a holder can have.
func hostName() string {
	name, err := os.Hostname()
	if err != nil || len(name) > 64 || token.ValidateResource(name) != nil {
		return "localhost"
	}
	return name
}

// newHolder returns the id of one acquisition: the host and the process id, the Locker's
// name, the acquisition's sequence number in the process, and a random part, as in
// web-1:4711/billing:7:c2f1a0b3d4e59687. Process ids repeat
// after a restart and in containers, and a cloned virtual machine repeats all of them;
// the random part does not. If two acquisitions had the same id, a paused holder would be
// admitted as its successor.
//
// The host is left out if the holder would be too long: otherwise a long name worked on one
// machine and failed on another.
func newHolder(host, name string) string {
	var random [8]byte
	rand.Read(random[:]) // Read never returns an error
	text := make([]byte, 0, 128)
	text = append(append(text, host...), ':')
	text = append(strconv.AppendInt(text, int64(os.Getpid()), 10), '/')
	text = append(append(text, name...), ':')
	text = append(strconv.AppendUint(text, sequence.Add(1), 10), ':')
	text = hex.AppendEncode(text, random[:])
	if len(text) > token.MaxNameBytes {
		text = text[len(host)+1:]
	}
	return string(text)
}
