// Package depose breaks the lock of a holder: first each guard refuses the holder, and then
// its lease is freed. The command fencepost locks break and the lock service call it.
package depose

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// Issuer is an issuer whose locks can be broken.
type Issuer interface {
	token.Issuer
	token.Recoverer
	token.Inspector
}

// Guard is a store of marks with a name for the report.
type Guard struct {
	Name string
	guard.Store
}

// Break is the break of one lock.
type Break struct {
	Issuer   Issuer
	Guards   []Guard
	Limit    time.Duration // within which a guard must reply
	Resource string
	Holder   string // that is deposed
	By       string // the holder of the new number
	Above    int64  // a number of the holder's token that the issuer may have forgotten; or 0
}

// Run raises the issuer and each guard above the holder's number, and then frees the lease of
// exactly this holder. It returns the new number, and what was done, as rows of a subject and a
// text: nil if nothing was changed. If another holder has the lock now, nothing is changed, the
// error is nil, and now is the state of the lock.
func (b *Break) Run(ctx context.Context) (number int64, done [][]string, now token.State, err error) {
	number, done, now, err = b.depose(ctx)
	switch {
	case done == nil:
	case err == nil:
		done, err = b.free(ctx, done)
	default:
		done = append(done, []string{"lease", "not touched"})
	}
	return number, done, now, err
}

func (b *Break) depose(ctx context.Context) (number int64, done [][]string, now token.State, err error) {
	deposes := func() bool {
		now, err = b.Issuer.Inspect(ctx, b.Resource)
		ours := now.Holder == "" || now.Holder == b.Holder
		if !ours && done != nil {
			err = fmt.Errorf("a guard still admits the deposed holder, and %q has the lock now", now.Holder)
		}
		return err == nil && ours
	}
	above := b.Above
	for range 10 {
		if !deposes() {
			return number, done, now, err
		}
		// The clock is above the number of a holder that the issuer has forgotten.
		number = max(now.Number, above, time.Now().UnixMicro()/10) + 1
		if err = b.Issuer.Recover(ctx, b.Resource, number); errors.Is(err, token.ErrLost) {
			continue // a grant has a higher number: perhaps a successor's, or on Redis that of another lock
		}
		// A successor that was granted before Recover has a lower number. If the holder still has
		// the lock, there was none.
		if err != nil || !deposes() {
			return number, done, now, err
		}
		if done, above, err = b.raise(ctx, token.Token{Resource: b.Resource, Number: number, Holder: b.By}); above == 0 {
			return number, done, now, err
		}
	}
	return number, done, now, errors.Join(errors.New("the numbers of the lock rise meanwhile: repeat the command"), err)
}

// raise has each guard admit tok, as a successor's claim does. If a guard still admits the
// holder above tok, raise returns the number of the holder's mark there, or the floor.
func (b *Break) raise(ctx context.Context, tok token.Token) (done [][]string, above int64, err error) {
	done = [][]string{{"number", fmt.Sprintf("%d: later holders have a higher one", tok.Number)}}
	for _, g := range b.Guards {
		refusal := b.admit(ctx, g, tok)
		var stale *guard.StaleError
		says := "it has admitted the number, and refuses lower ones"
		switch {
		case refusal == nil:
		case errors.As(refusal, &stale) && stale.Mark.Number > 0 && slices.Contains([]string{b.Holder, Label(b.Holder), ""}, stale.Mark.Holder):
			above, says = stale.Mark.Number, fmt.Sprintf("it admits the holder with %d", stale.Mark.Number)
		case stale != nil && stale.Mark.Number > 0:
			says = fmt.Sprintf("its mark is %d of %s, and it refuses lower ones", stale.Mark.Number, stale.Mark.Holder)
		default:
			says = "uncertain: the number may be admitted or not"
			err = errors.Join(err, fmt.Errorf("the lease was not freed, repeat the command: %s: %w", g.Name, refusal))
		}
		done = append(done, []string{"guard", g.Name + ": " + says})
	}
	if len(b.Guards) == 0 {
		done = append(done, []string{"guard", "none: late writes of the deposed holder are accepted until a successor has claimed"})
	}
	return done, above, err
}

// admit is the guard's Admit, within the limit.
func (b *Break) admit(ctx context.Context, g Guard, tok token.Token) error {
	ctx, cancel := context.WithTimeoutCause(ctx, b.Limit, fmt.Errorf("no answer within %s", b.Limit))
	defer cancel()
	err := g.Admit(ctx, tok)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// free ends the lease of the holder, and of no other: a holder is one acquisition.
func (b *Break) free(ctx context.Context, done [][]string) ([][]string, error) {
	lease, next := "freed", "none: the lock is free"
	switch err := b.Issuer.Release(ctx, token.Token{Resource: b.Resource, Number: 1, Holder: b.Holder}); {
	case errors.Is(err, token.ErrLost):
		lease = "had ended already"
	case err != nil:
		return append(done, []string{"lease", "uncertain: it may be freed or not"}), fmt.Errorf("repeat the command: %w", err)
	}
	now, err := b.Issuer.Inspect(ctx, b.Resource)
	switch {
	case err != nil:
		next = "unknown: the issuer does not reply"
	case now.Holder != "":
		next = now.Holder + ", which has the lock"
	case len(now.Waiters) > 0:
		next = now.Waiters[0] + ", which waits"
	}
	return append(done, []string{"lease", lease}, []string{"next", next}), nil
}

// hashBytes are 16 characters in base64.
const hashBytes = 12

// Holder returns the issuer's holder of a request to the lock service: a label, and a hash of
// what only the client has.
func Holder(label string, hash [sha256.Size]byte) string {
	return label + "~" + base64.RawURLEncoding.EncodeToString(hash[:hashBytes])
}

// Label returns the label in a holder of the lock service, which a client in Go has in its tokens
// as the holder. A holder that another program has made is its own label.
func Label(holder string) string {
	if cut := len(holder) - 1 - base64.RawURLEncoding.EncodedLen(hashBytes); cut > 0 && holder[cut] == '~' {
		return holder[:cut]
	}
	return holder
}
