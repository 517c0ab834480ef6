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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

const (
	hot   = 3    // resources
	round = 1000 // writes between two checks of the history
	// tortured is the number of rounds, unless envTorture sets the number of writes. A
	// mutant that is not detected by then fails the test. So far each was detected within
	// three rounds.
	tortured = 16
)

const envTorture = "FENCEPOST_TORTURE"

// torture lets sixteen writers write to three resources, with the newest token, older
// ones, and impostors of the newest, through every door, under every isolation level,
// with rollbacks. It compares the database with the results that the writers got.
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
	applied    map[int64]bool // the writers' results since, by id of the write
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

// run runs up to n rounds, or until a violation is found.
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

// write makes one write and checks its result.
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
	g := &sqlguard.Guard{DB: tt.pool, Schema: tt.schema, Tx: w.options, IdleTimeout: 4 * ceiling}
	err := w.door(ctx, tt, g, w)
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.judge(w, err)
}

// judge finds results that are wrong by themselves.
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

// isIssued reports whether the mark is a token that a writer had.
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
	newTorture(t).holds(1, "admitted", "refused", "rolled back")
}

func TestStressTorture(t *testing.T) {
	t.Parallel()
	rounds := (testenv.Rounds(t, envTorture, tortured*round) + round - 1) / round
	newTorture(t).holds(rounds, "admitted", "refused", "rolled back", "retryable")
}

// holds runs all rounds. It fails for a violation, and if no write had one of the kinds
// of results.
func (tt *torture) holds(rounds int, kinds ...string) {
	tt.t.Helper()
	start := time.Now()
	tt.run(rounds)
	tt.t.Logf("seed %d: %d writes in %s: %v", tt.seed, tt.ops.Load(), time.Since(start).Round(time.Second), tt.counts)
	require.Empty(tt.t, tt.violations, "FENCEPOST_TEST_SEED=%d", tt.seed)
	require.GreaterOrEqual(tt.t, tt.ops.Load(), int64(rounds*round))
	for _, kind := range kinds {
		require.Positive(tt.t, tt.counts[kind], kind)
	}
}

// breaks runs rounds until the mutant is detected.
func (tt *torture) breaks() {
	tt.t.Helper()
	tt.run(tortured)
	require.NotEmpty(tt.t, tt.violations, "the torture does not catch it: FENCEPOST_TEST_SEED=%d", tt.seed)
	tt.t.Logf("seed %d: caught after %d writes: %s", tt.seed, tt.ops.Load(), tt.violations[0])
}

// writing is one write of the torture.
type writing struct {
	op        int64
	name      string
	door      func(ctx context.Context, tt *torture, g *sqlguard.Guard, w *writing) error
	options   pgx.TxOptions
	stakes    []stake
	writes    bool // writes an entry to the ledger for each stake
	modifies  bool // and the first one continues from the last
	rollsBack bool
}

// stake is a resource and the token under which it is written.
type stake struct {
	id  int
	tok token.Token
}

func (w *writing) isFixed() bool {
	return w.options.IsoLevel == pgx.RepeatableRead || w.options.IsoLevel == pgx.Serializable
}

func (w *writing) String() string {
	return fmt.Sprintf("write %d, %s %v under %s", w.op, w.name, w.stakes, w.options.IsoLevel)
}

// draw draws a write. Every twentieth token is a new one.
func (tt *torture) draw(rng *rand.Rand) *writing {
	w := &writing{op: tt.ops.Add(1), writes: true, modifies: rng.IntN(2) == 0, rollsBack: rng.IntN(10) == 0}
	w.options.IsoLevel = levels[max(0, rng.IntN(10)-7)]
	w.stakes = []stake{tt.stake(rng, rng.IntN(hot))}
	switch n := rng.IntN(20); {
	case n < 8:
		w.name, w.door = "Update", byUpdate
	case n < 13:
		w.name, w.door = "On", byOn
		if !w.isFixed() && rng.IntN(2) == 0 {
			w.name, w.options = "On, implicit", pgx.TxOptions{}
		}
	case n < 16:
		w.name, w.door = "UpdateAll", byUpdate
		w.stakes = append(w.stakes, tt.stake(rng, (w.stakes[0].id+1)%hot))
	case n < 19:
		w.name, w.door = "Join", byJoin
		w.options.IsoLevel = pgx.ReadCommitted // otherwise it must be claimed first
	default:
		w.name, w.door = "Admit", byAdmit
		w.writes, w.modifies = false, false
		w.options.IsoLevel = pgx.ReadCommitted
	}
	return w
}

func (tt *torture) stake(rng *rand.Rand, id int) stake {
	number := tt.newest[id].Load()
	tok := token.Token{Resource: fmt.Sprintf("hot/%d", id), Number: number, Holder: holder(number)}
	switch n := rng.IntN(100); {
	case n < 5:
		tok.Number = tt.newest[id].Add(1)
		tok.Holder = holder(tok.Number)
	case n < 20:
		tok.Number = max(1, number-1-rng.Int64N(3))
		tok.Holder = holder(tok.Number)
	case n < 22:
		tok.Holder = impostor(number)
	}
	return stake{id, tok}
}

func byUpdate(ctx context.Context, tt *torture, g *sqlguard.Guard, w *writing) error {
	fn := func(tx pgx.Tx) error { return tt.fill(ctx, tx, w) }
	if len(w.stakes) == 1 {
		return g.Update(ctx, w.stakes[0].tok.Resource, fn)
	}
	return g.UpdateAll(ctx, []string{w.stakes[0].tok.Resource, w.stakes[1].tok.Resource}, fn)
}

func byJoin(ctx context.Context, tt *torture, g *sqlguard.Guard, w *writing) error {
	return pgx.BeginTxFunc(ctx, tt.pool, w.options, func(tx pgx.Tx) error {
		if err := g.Join(ctx, tx, w.stakes[0].tok.Resource); err != nil {
			return err
		}
		return tt.fill(ctx, tx, w)
	})
}

func byAdmit(ctx context.Context, _ *torture, g *sqlguard.Guard, w *writing) error {
	return g.Admit(ctx, w.stakes[0].tok)
}

// nextSQL is a read-modify-write that appends: it locks no row, and no conflict of two
// updates aborts a transaction that has read too early. Only the admission excludes
// another token.
const nextSQL = "SELECT coalesce((SELECT value FROM ledger WHERE id = $1 AND value IS NOT NULL ORDER BY n DESC LIMIT 1), 0) + 1"

// byOn reads and modifies in one statement, or only appends.
func byOn(ctx context.Context, tt *torture, g *sqlguard.Guard, w *writing) error {
	tok, value := w.stakes[0].tok, "NULL"
	if w.modifies {
		value = "(" + nextSQL + ")"
	}
	text := "INSERT INTO ledger (op, id, number, holder, value) VALUES ($2, $1, $3, $4, " + value + ")"
	_, err := g.On(tok.Resource).Exec(ctx, tt.sql(text), w.stakes[0].id, w.op, tok.Number, tok.Holder)
	return err
}

// fill acts like an application's closure: it reads, computes, writes.
func (tt *torture) fill(ctx context.Context, tx pgx.Tx, w *writing) error {
	for i, s := range w.stakes {
		var value *int64
		if w.modifies && i == 0 {
			if err := tx.QueryRow(ctx, tt.sql(nextSQL), s.id).Scan(&value); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, tt.sql("INSERT INTO ledger (op, id, number, holder, value) VALUES ($1, $2, $3, $4, $5)"),
			w.op, s.id, s.tok.Number, s.tok.Holder, value)
		if err != nil {
			return err
		}
	}
	if w.rollsBack {
		return errRolledBack
	}
	return nil
}

func outcomeCode(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
