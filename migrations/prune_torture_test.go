package migrations_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

const (
	torturers = 16
	hot       = 24 // resources
	tortured  = 10_000
	mutilated = 2_000
)

// torture lets sixteen writers write to resources whose marks are pruned at the same
// time, some just after they were raised. It compares their results, and the ledger, with
// the order of the tokens.
type torture struct {
	fence
	*testing.T
	seed   uint64
	clock  atomic.Int64 // the last number that was issued
	newest [hot]atomic.Int64
	cutoff atomic.Int64 // no floor was ever above it
	writes atomic.Int64

	mu         sync.Mutex
	counts     map[string]int
	violations []string
}

func newTorture(t *testing.T) *torture {
	f := newFence(t)
	require.NoError(t, f.exec(t.Context(), f, "CREATE TABLE fence.ledger (n bigserial PRIMARY KEY, id int NOT NULL, number bigint NOT NULL)"))
	tt := &torture{fence: f, T: t, seed: rand.Uint64(), counts: map[string]int{}}
	if given, err := strconv.ParseUint(os.Getenv("FENCEPOST_TEST_SEED"), 10, 64); err == nil {
		tt.seed = given
	}
	return tt
}

// run makes n writes, or stops at a violation.
func (tt *torture) run(n int64) {
	var writers, pruner sync.WaitGroup
	for w := range torturers {
		writers.Go(func() {
			for rng := tt.rng(w); tt.writes.Add(1) <= n && tt.clean(); {
				tt.write(rng)
			}
		})
	}
	finished := make(chan struct{})
	pruner.Go(func() {
		for rng := tt.rng(torturers); ; {
			select {
			case <-finished:
				return
			default:
				tt.prune(rng)
			}
		}
	})
	writers.Wait()
	close(finished)
	pruner.Wait()
	tt.check()
}

func (tt *torture) rng(stream int) *rand.Rand { return rand.New(rand.NewPCG(tt.seed, uint64(stream))) }

// hazard G21
func TestStressPrune(t *testing.T) {
	t.Parallel()
	tt := newTorture(t)
	tt.run(tortured)
	t.Logf("seed %d: %v", tt.seed, tt.counts)
	require.Empty(t, tt.violations, "FENCEPOST_TEST_SEED=%d", tt.seed)
	for _, kind := range []string{"admitted", "refused by the mark", "refused by the floor", "rolled back", "pruned"} {
		require.Greater(t, tt.counts[kind], 100, kind)
	}
	require.Positive(t, tt.counts["ZF004"])
	for id := range hot {
		require.NoError(t, tt.admit(t.Context(), tt, resource(id), tt.clock.Load()+10, "last"), "above every cutoff")
	}
}

// The torture must detect its mutant.
func TestStressPruneCatchesItsMutant(t *testing.T) {
	t.Parallel()
	tt := newTorture(t)
	withoutFloor.put(t, tt.fence)
	tt.run(mutilated)
	t.Logf("seed %d: %v", tt.seed, tt.counts)
	require.NotEmpty(t, tt.violations, "the torture does not catch it: FENCEPOST_TEST_SEED=%d", tt.seed)
	t.Log(tt.violations[0])
}

func resource(id int) string { return fmt.Sprintf("hot/%d", id) }

// judge finds results that are wrong by themselves.
func (tt *torture) judge(id int, number int64, fixed bool, err error) {
	var refusal *pgconn.PgError
	errors.As(err, &refusal)
	switch {
	case err == nil:
		tt.count("admitted", 1)
	case errors.Is(err, errOnPurpose):
		tt.count("rolled back", 1)
	case code(err) == "ZF001":
		tt.judgeRefusal(id, number, refusal.Detail)
	case fixed && (code(err) == "40001" || code(err) == "ZF004"):
		tt.count(code(err), 1)
	default: // deadlocks and collisions are among these
		tt.violate("#%d of %s: %v", number, resource(id), err)
	}
}

// judgeRefusal checks a refusal against the numbers that were issued: the mark must be a
// newer token of the resource, or the floor must be above the token and have been set by
// prune.
func (tt *torture) judgeRefusal(id int, number int64, detail string) {
	mark, name, _ := strings.Cut(detail, "\n")
	text, holder, _ := strings.Cut(mark, " ")
	limit, kind := tt.newest[id].Load(), "refused by the mark"
	if holder == "" {
		limit, kind = tt.cutoff.Load(), "refused by the floor"
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= number || n > limit || name != resource(id) {
		tt.violate("spurious refusal of #%d of %s by %q, not above %d", number, resource(id), detail, limit)
	}
	tt.count(kind, 1)
}

// check reads the ledger. The n of an entry was drawn after its admission and before its
// commit, so n orders the commits of different tokens, and in that order the numbers of a
// resource never fall.
func (tt *torture) check() {
	tt.Helper()
	rows, err := tt.Query(tt.Context(), tt.sql(`SELECT format('stale write accepted on hot/%s: #%s after #%s', id, number, before)
		FROM (SELECT n, id, number, lag(number) OVER (PARTITION BY id ORDER BY n) AS before FROM fence.ledger) x
		WHERE number < before ORDER BY n LIMIT 10`))
	require.NoError(tt, err)
	stale, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(tt, err)
	tt.violations = append(tt.violations, stale...)
}

func (tt *torture) count(kind string, n int) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.counts[kind] += n
}

func (tt *torture) violate(format string, args ...any) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	if len(tt.violations) < 10 {
		tt.violations = append(tt.violations, fmt.Sprintf(format, args...))
	}
}

func (tt *torture) clean() bool {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	return len(tt.violations) == 0
}

var errOnPurpose = errors.New("rolled back on purpose")

// prune prunes what was not written for a while, and sometimes everything.
func (tt *torture) prune(rng *rand.Rand) {
	cutoff := tt.clock.Load() - 40
	if rng.IntN(20) == 0 {
		cutoff += 42
	}
	cutoff = max(cutoff, tt.cutoff.Load())
	tt.cutoff.Store(cutoff)
	gone := 0
	err := tt.QueryRow(tt.Context(), tt.sql("SELECT fence.prune($1, $2)"), cutoff, 1+rng.IntN(5)).Scan(&gone)
	if err != nil {
		tt.violate("prune(%d): %v", cutoff, err)
	}
	tt.count("pruned", gone)
}

// write makes one write with a token that is new, newest or older, and checks its result.
func (tt *torture) write(rng *rand.Rand) {
	id := rng.IntN(hot)
	number := tt.newest[id].Load()
	switch draw := rng.IntN(10); {
	case draw < 3 || number == 0:
		number = tt.issue(id)
	case draw < 7:
		number = max(1, number-1-rng.Int64N(80))
	}
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	if rng.IntN(4) == 0 {
		options.IsoLevel = []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable}[rng.IntN(2)]
	}
	rollBack := rng.IntN(10) == 0
	err := pgx.BeginTxFunc(tt.Context(), tt.Pool, options, func(tx pgx.Tx) error {
		if err := tt.admit(tt.Context(), tx, resource(id), number, fmt.Sprintf("holder %d", number)); err != nil {
			return err
		}
		if err := tt.exec(tt.Context(), tx, "INSERT INTO fence.ledger (id, number) VALUES ($1, $2)", id, number); err != nil {
			return err
		}
		if rollBack {
			return errOnPurpose
		}
		return nil
	})
	tt.judge(id, number, options.IsoLevel != pgx.ReadCommitted, err)
}

// issue returns a new newest token of a resource.
func (tt *torture) issue(id int) int64 {
	number := tt.clock.Add(1)
	for {
		old := tt.newest[id].Load()
		if old >= number || tt.newest[id].CompareAndSwap(old, number) {
			return number
		}
	}
}
