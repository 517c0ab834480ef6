package sqlguard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

const (
	hot   = 3    // resources
	round = 1000 // writes between two looks at the history
	// tortured is how many rounds there are, unless envTorture says how many writes.
	// A mutant that was not caught by then has won; each has been caught within three
	// of them so far.
	tortured = 16
)

const envTorture = "FENCEPOST_TORTURE"

// torture has sixteen writers write to three resources, with the newest token,
// older ones, and impostors of the newest, through every door, under every
// isolation level, with rollbacks, and holds what the database then has against
// what the writers were told.
type torture struct {
	*env
	seed   uint64
	pool   *pgxpool.Pool
	newest [hot]atomic.Int64
	turns  sync.Map     // of token.Token: *sync.Mutex, for one read-modify-write at a time under one token
	ops    atomic.Int64 // the id of the last write

	seen    int64 // the last entry of the ledger that was checked
	history [hot]last

	mu         sync.Mutex
	applied    map[int64]bool // what the writers were told since, by id of the write
	counts     map[string]int
	violations []string
}

func newTorture(t *testing.T) *torture {
	e := newEnv(t)
	e.exec("CREATE TABLE ledger (n bigserial PRIMARY KEY, op bigint NOT NULL, id int NOT NULL, number bigint NOT NULL, holder text NOT NULL, value bigint)")
	e.exec("CREATE INDEX ON ledger (id, n DESC) INCLUDE (value) WHERE value IS NOT NULL")
	pool, _ := wired(t, writers)
	tt := &torture{env: e, pool: pool, seed: rand.Uint64(), applied: map[int64]bool{}, counts: map[string]int{}}
	if given, err := strconv.ParseUint(os.Getenv("FENCEPOST_TEST_SEED"), 10, 64); err == nil {
		tt.seed = given
	}
	for id := range hot {
		tt.newest[id].Store(1)
	}
	return tt
}

// run runs up to n rounds, until a violation is found.
func (tt *torture) run(n int) {
	for i := 0; i < n && len(tt.violations) == 0; i++ {
		var group sync.WaitGroup
		for w := range writers {
			group.Go(func() {
				rng := rand.New(rand.NewPCG(tt.seed, uint64(i*writers+w)))
				for range (round + writers - 1) / writers {
					tt.write(rng)
				}
			})
		}
		group.Wait()
		tt.check()
	}
}

var errRolledBack = errors.New("rolled back on purpose")

// write makes one write and judges what it was told.
func (tt *torture) write(rng *rand.Rand) {
	w := tt.draw(rng)
	ctx, cancel := context.WithTimeout(tt.t.Context(), 4*ceiling)
	defer cancel()
	for _, s := range w.stakes {
		ctx = token.NewContext(ctx, s.tok)
	}
	if w.modifies {
		turn, _ := tt.turns.LoadOrStore(w.stakes[0].tok, &sync.Mutex{})
		turn.(*sync.Mutex).Lock()
		defer turn.(*sync.Mutex).Unlock()
	}
	g := &sqlguard.Guard{DB: tt.pool, Schema: tt.schema, Tx: w.options, Idle: 4 * ceiling}
	err := w.door(ctx, tt, g, w)
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.judge(w, err)
}

// judge finds answers that are wrong by themselves.
func (tt *torture) judge(w *writing, err error) {
	tt.applied[w.op] = err == nil && w.writes
	var stale *guard.StaleError
	kind := ""
	switch {
	case err == nil:
		kind = "admitted"
	case errors.As(err, &stale):
		kind = "refused"
		if stale.Mark.Admits(stale.Token) == nil || !tt.isIssued(stale) {
			tt.violate("spurious refusal of %s of %s by mark %v", stale.Token, stale.Token.Holder, stale.Mark)
		}
	case errors.Is(err, errRolledBack):
		kind = "rolled back"
	case errors.Is(err, guard.ErrRetryable) && outcomeCode(err) == "40001" && w.isFixed():
		kind = "retryable"
	default: // deadlocks are among these
		tt.violate("%s answered: %v", w, err)
	}
	tt.counts[kind]++
	tt.counts[w.name]++
}

// isIssued reports whether the mark is a token that some writer had.
func (tt *torture) isIssued(stale *guard.StaleError) bool {
	id, err := strconv.Atoi(stale.Token.Resource[len("hot/"):])
	if err != nil || stale.Mark.Number > tt.newest[id].Load() {
		return false
	}
	return stale.Mark.Holder == holder(stale.Mark.Number) || stale.Mark.Holder == impostor(stale.Mark.Number)
}

func (tt *torture) violate(format string, args ...any) {
	if len(tt.violations) < 10 {
		tt.violations = append(tt.violations, fmt.Sprintf(format, args...))
	}
}

func holder(number int64) string   { return fmt.Sprintf("holder %d", number) }
func impostor(number int64) string { return fmt.Sprintf("impostor %d", number) }

func TestTorture(t *testing.T) {
	t.Parallel()
	tt := newTorture(t)
	rounds := (testenv.Rounds(t, envTorture, tortured*round) + round - 1) / round
	start := time.Now()
	tt.run(rounds)
	t.Logf("seed %d: %d writes in %s: %v", tt.seed, tt.ops.Load(), time.Since(start).Round(time.Second), tt.counts)
	require.Empty(t, tt.violations, "FENCEPOST_TEST_SEED=%d", tt.seed)
	require.GreaterOrEqual(t, tt.ops.Load(), int64(rounds*round))
	for _, kind := range []string{"admitted", "refused", "rolled back", "retryable"} {
		require.Positive(t, tt.counts[kind], kind)
	}
}
