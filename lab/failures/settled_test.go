package failures_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// envPromotions sets how often a standby is promoted over each driver.
const envPromotions = "FENCEPOST_PROMOTIONS"

// Connections are cut while writers commit, and then the primary dies and an
// asynchronous standby takes its place. Each answer is compared with the standby's rows.
//
// hazard G38
func TestStressALostCommitIsSettledAcrossAPromotion(t *testing.T) {
	for driver, open := range map[string]func(*testing.T, *pgx.ConnConfig) update{"pgx": overPgx, "database/sql": overDatabaseSQL} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			total, rounds := map[string]int{}, testenv.Rounds(t, envPromotions, 2)
			// A round without an unknown outcome proves nothing about them.
			for n := 0; n < rounds || total["unknown after the death"] == 0; n++ {
				newPromotion(t, open).run(total)
			}
			t.Logf("%v", total)
			require.Positive(t, total["settled as applied before the promotion"])
		})
	}
}

// update is a guarded write of one row of the table ops.
type update func(ctx context.Context, op int64) error

const insertOp = "INSERT INTO ops VALUES ($1)"

func overPgx(t *testing.T, config *pgx.ConnConfig) update {
	t.Helper()
	settings, err := pgxpool.ParseConfig("")
	require.NoError(t, err)
	settings.ConnConfig, settings.MaxConns = config, promotionWriters
	pool, err := pgxpool.NewWithConfig(t.Context(), settings)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	g := &sqlguard.Guard{DB: pool}
	return func(ctx context.Context, op int64) error {
		return g.Update(ctx, "ops", func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, insertOp, op)
			return err
		})
	}
}

func overDatabaseSQL(t *testing.T, config *pgx.ConnConfig) update {
	t.Helper()
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { db.Close() })
	g := &stdsql.Guard{DB: db, Dialect: stdsql.Postgres}
	return func(ctx context.Context, op int64) error {
		return g.Update(ctx, "ops", func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, insertOp, op)
			return err
		})
	}
}

const (
	promotionWriters = 8
	writesBefore     = 400 // until the primary dies
	writesAfter      = 400 // after the promotion
)

// promotion is one life of a primary and its standby.
type promotion struct {
	*testing.T
	primary  *testenv.PostgresServer
	standby  *testenv.PostgresServer
	at       place
	write    update
	moved    atomic.Bool // the standby is the primary
	dead     atomic.Bool // the primary has been killed
	ended    atomic.Bool
	op       atomic.Int64
	mu       sync.Mutex
	finished []*attempt
	counted  chan struct{} // receives a value for each finished attempt
}

// attempt is one call of a guard.
type attempt struct {
	op          int64
	err         error
	asked       atomic.Bool // for the fate of its transaction
	askedNew    atomic.Bool // after the promotion
	beforeDeath bool        // it has returned before the primary was killed
}

type attemptKey struct{}

// TraceQueryStart notes that the guard asks for a fate.
func (p *promotion) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if a, _ := ctx.Value(attemptKey{}).(*attempt); a != nil && strings.Contains(data.SQL, "transaction_fate") {
		a.asked.Store(true)
		if p.moved.Load() {
			a.askedNew.Store(true)
		}
	}
	return ctx
}

// TraceQueryEnd does nothing.
func (p *promotion) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func newPromotion(t *testing.T, open func(*testing.T, *pgx.ConnConfig) update) *promotion {
	t.Helper()
	primary := testenv.OwnPostgres(t, settings...)
	testenv.Migrate(t, primary.URL())
	p := &promotion{T: t, primary: primary, counted: make(chan struct{}, promotionWriters)}
	p.at.move(primary.Addr())
	config, err := pgx.ParseConfig(primary.URL())
	require.NoError(t, err)
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.DialFunc, config.Tracer = p.dial, p
	admin, err := pgx.Connect(t.Context(), primary.URL())
	require.NoError(t, err)
	_, err = admin.Exec(t.Context(), "CREATE TABLE ops (op bigint NOT NULL)")
	require.NoError(t, err)
	require.NoError(t, admin.Close(t.Context()))
	p.standby = primary.Standby(settings...)
	primary.CaughtUp()
	p.write = open(t, config)
	return p
}

// run writes until the primary dies, and after the promotion.
func (p *promotion) run(total map[string]int) {
	p.Helper()
	var writers sync.WaitGroup
	for range promotionWriters {
		writers.Go(p.writeAll)
	}
	p.awaitWrites(writesBefore / 2)
	p.standby.CutOff()
	p.awaitWrites(writesBefore / 2)
	p.dead.Store(true)
	p.primary.Kill()
	p.standby.Promote()
	p.at.move(p.standby.Addr())
	p.moved.Store(true)
	p.awaitWrites(writesAfter)
	p.ended.Store(true)
	go func() {
		for range p.counted { // the writers end
		}
	}()
	writers.Wait()
	close(p.counted)
	p.judge(total)
}

// dial connects to the current primary.
func (p *promotion) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := p.at.dial(ctx, network, addr)
	return &cutConn{conn, commitOfPgx}, err
}

// cutting dials connections that break at some messages that contain at.
func cutting(at string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &cutConn{conn, at}, err
	}
}

// cutConn breaks at some messages that contain at, before or after it has sent them.
type cutConn struct {
	net.Conn
	at string
}

// commitOfPgx is a COMMIT as pgx sends it in the mode of these tests, QueryExecModeExec.
const commitOfPgx = "commit\x00"

// Write implements net.Conn.
func (c *cutConn) Write(b []byte) (int, error) {
	if !bytes.Contains(b, []byte(c.at)) || rand.IntN(5) > 0 {
		return c.Conn.Write(b)
	}
	if rand.IntN(2) == 0 {
		if n, err := c.Conn.Write(b); err != nil {
			return n, err
		}
	}
	return len(b), c.Close()
}

func (p *promotion) writeAll() {
	tok := token.Token{Resource: "ops", Number: 33, Holder: "a"}
	for !p.ended.Load() {
		a := &attempt{op: p.op.Add(1)}
		ctx := context.WithValue(token.NewContext(p.Context(), tok), attemptKey{}, a)
		a.err = p.write(ctx, a.op)
		a.beforeDeath = !p.dead.Load()
		p.mu.Lock()
		p.finished = append(p.finished, a)
		p.mu.Unlock()
		p.counted <- struct{}{}
	}
}

// awaitWrites returns after that many attempts.
func (p *promotion) awaitWrites(n int) {
	for range n {
		<-p.counted
	}
}

// judge compares the answers with the rows of the promoted standby. What the old primary
// acknowledged after the standby was cut off is lost, as with every asynchronous standby.
func (p *promotion) judge(total map[string]int) {
	p.Helper()
	conn, err := pgx.Connect(p.Context(), p.standby.URL())
	require.NoError(p, err)
	defer conn.Close(p.Context())
	rows, err := conn.Query(p.Context(), "SELECT op FROM ops")
	require.NoError(p, err)
	ops, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(p, err)
	there := map[int64]int{}
	for _, op := range ops {
		there[op]++
	}
	for _, a := range p.finished {
		n := there[a.op]
		require.LessOrEqual(p, n, 1, "op %d", a.op)
		switch {
		case a.err == nil && a.askedNew.Load():
			require.Equal(p, 1, n, "op %d was settled as applied by the new primary", a.op)
			total["settled as applied after the promotion"]++
		case a.err == nil && a.asked.Load():
			total["settled as applied before the promotion"]++
		case a.err == nil:
			total["acknowledged"]++
		case errors.Is(a.err, guard.ErrUnknown):
			require.False(p, a.beforeDeath, "op %d has no reason to be unknown: %v", a.op, a.err)
			total["unknown after the death"]++
		default:
			require.Zero(p, n, "op %d: nothing was applied, said %v", a.op, a.err)
			total["not applied"]++
		}
	}
}
