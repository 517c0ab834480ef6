package lockset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// worker is one process: the parent stops it, and with it all ways at once.
type worker struct {
	setup
	mu     sync.Mutex // of events
	events *json.Encoder
	pool   *pgxpool.Pool
	redis  *redis.Client
	fence  *sqlguard.Guard
}

// Serve is a worker's process: it reads the setup and then orders from in, and
// reports to out, until in ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	w, orders := &worker{events: json.NewEncoder(out)}, json.NewDecoder(in)
	if err := orders.Decode(&w.setup); err != nil {
		return fmt.Errorf("lockset: no setup: %w", err)
	}
	if err := w.connect(ctx); err != nil {
		return err
	}
	defer w.close()
	w.say(event{Kind: ready})
	var o order
	if err := orders.Decode(&o); err != nil {
		return fmt.Errorf("lockset: no order to begin: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_ = orders.Decode(&o) // the next order can only be to quit, and so is the end
		cancel()
	}()
	w.work(ctx)
	w.say(event{Kind: done})
	return nil
}

// work adds in all ways until ctx ends.
func (w *worker) work(ctx context.Context) {
	var all sync.WaitGroup
	for _, way := range w.Ways {
		a := &adder{worker: w, way: way, set: setName(w.Run, way)}
		a.random = rand.New(rand.NewPCG(w.Seed, uint64(w.Index))) // the same in each way
		a.locker = token.Locker{Issuer: &redistoken.Issuer{Client: w.redis, Prefix: w.Prefix}, Name: w.Name, TTL: w.TTL}
		if way.Fenced() {
			a.locker.Claim = w.fence.Admit
		}
		all.Go(func() { a.addAll(ctx) })
	}
	all.Wait()
}

func setName(run string, way Way) string { return "set/" + run + "/" + string(way) }

// pace keeps a worker that cannot reach its servers from spinning.
const pace = 20 * time.Millisecond

// addAll adds one value after the other. One that was not even begun is left
// out: what was asked of a server while the process stood has often timed out.
func (a *adder) addAll(ctx context.Context) {
	for n := 0; ctx.Err() == nil && (a.Additions == 0 || n < a.Additions); n++ {
		err := a.add(ctx, int64(a.Index+n*a.Of))
		if err == nil || errors.Is(err, context.Canceled) {
			continue
		}
		a.say(event{Kind: trouble, Way: a.way, Text: err.Error()})
		_ = sleep(ctx, pace)
	}
}

// say reports e. Whom it does not reach any more, the end of the orders does.
func (w *worker) say(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.events.Encode(e)
}
