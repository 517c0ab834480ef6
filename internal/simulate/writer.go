package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// Serve is a writer's process: it reads the setup and then orders from in, and
// reports to out, until in ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	w := &writer{orders: json.NewDecoder(in), events: json.NewEncoder(out)}
	if err := w.orders.Decode(&w.setup); err != nil {
		return fmt.Errorf("simulate: no setup: %w", err)
	}
	if err := w.connect(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	w.say(Event{Kind: Ready})
	for {
		var o order
		if err := w.orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("simulate: order: %w", err)
		}
		if err := w.work(ctx, o); err != nil {
			w.say(Event{Kind: Failed, Text: fmt.Sprintf("%s on %s: %v", o.Way, o.Resource, err)})
		}
	}
}

// writer is A or B, in its own process.
type writer struct {
	setup
	orders *json.Decoder
	events *json.Encoder
	redis  *redis.Client
	issuer *sleepyIssuer
	store  *store
}

func (w *writer) connect(ctx context.Context) (err error) {
	if w.redis, err = connectRedis(ctx, w.Redis); err != nil {
		return err
	}
	w.issuer = &sleepyIssuer{Issuer: &redistoken.Issuer{Client: w.redis, Prefix: w.Prefix}}
	w.store, err = openStore(ctx, w.setup)
	return err
}

func (w *writer) close() error { return errors.Join(w.store.close(), w.redis.Close()) }

// say reports e. Whom it does not reach any more, the end of the orders does.
func (w *writer) say(e Event) {
	e.At, e.Writer = time.Now(), w.Name
	_ = w.events.Encode(e)
}

// answer reports how a write came out.
func (w *writer) answer(balance int64, err error) {
	switch {
	case err == nil:
		w.say(Event{Kind: Accepted, Balance: balance})
	case errors.Is(err, guard.ErrStale):
		w.say(Event{Kind: Refused, Balance: balance, Text: err.Error()})
	default:
		w.say(Event{Kind: Failed, Balance: balance, Text: err.Error()})
	}
}

// work holds the lock and writes. On a machine too busy for the ttl the lock
// can be gone before the writer came to its write, which is not the case to be
// shown: then it takes the lock again. What becomes of the lock after the write
// does not matter: that A has lost it by then is the point.
func (w *writer) work(ctx context.Context, o order) error {
	locker := token.Locker{Issuer: w.issuer, Name: "writer-" + w.Name, TTL: w.TTL, Claim: w.claim(o)}
	for {
		w.say(Event{Kind: Asks})
		wrote := false
		err := locker.Hold(ctx, o.Resource, func(ctx context.Context) (err error) {
			wrote, err = w.write(ctx, o)
			return err
		})
		if wrote {
			return nil
		}
		if !errors.Is(err, token.ErrLost) {
			return err
		}
	}
}

// claim raises the mark before the first read, where there is a guard. It runs
// to its end even when the lease does not.
func (w *writer) claim(o order) func(context.Context, token.Token) error {
	return func(ctx context.Context, tok token.Token) error {
		w.say(Event{Kind: Holds, Number: tok.Number})
		if o.Way != Guarded {
			return nil
		}
		if err := w.store.fence.Admit(context.WithoutCancel(ctx), tok); err != nil {
			return err
		}
		w.say(Event{Kind: Claims, Number: tok.Number})
		return nil
	}
}
