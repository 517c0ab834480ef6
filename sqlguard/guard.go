package sqlguard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/marks"
	"github.com/fencepost/fencepost/internal/pgwrite"
	"github.com/fencepost/fencepost/token"
)

// Guard admits tokens in the transactions that write. Only DB is required. A Guard is
// cheap, and safe for concurrent use if its DB is. Its fields must not change after first
// use.
//
// For a write, the context carries the token and the caller names the resource. If ctx
// carries no token for the resource, the write returns the error of [token.FromContext]
// and nothing is written. Admit and Mint take no token from the context.
type Guard struct {
	// DB is the database that has the resource's rows and its mark. It must not be nil.
	DB DB
	// Schema is the schema of the marks, as given to package migrations. The search_path
	// has no effect. Empty means "fencepost".
	Schema string
	// Tx has the options of the transactions that Update, UpdateAll and On begin. If a
	// token is newer than the mark, a transaction of its own raises the mark first, so
	// that the snapshot of REPEATABLE READ and SERIALIZABLE is taken after the last older
	// write. A read-only Tx is an error. The zero value is the session's default.
	Tx pgx.TxOptions
	// IdleTimeout bounds how long a holder that was paused inside a transaction can block
	// its successor. If the lease's TTL is shorter than 5 s, set IdleTimeout to the TTL.
	// Zero means 5 s. Negative means no bound.
	//
	// It has two effects:
	//
	//   - A transaction of Update, UpdateAll or Join may be idle for IdleTimeout, or for
	//     the session's idle_in_transaction_session_timeout if that is shorter. Then the
	//     server ends it, and its writer's error is [guard.ErrEvicted].
	//   - A newer token waits for older writers for IdleTimeout. Then it ends their
	//     sessions and is admitted. This also covers pauses that the server does not
	//     count as idle: inside COPY FROM STDIN, or with an unread result.
	//
	// If the role may not end sessions, the newer token waits until its context ends.
	// Inside a pgx.Tx the guard ends no session, since that takes a second connection,
	// and returns [guard.ErrRetryable]. A token that was claimed before (see
	// [Guard.Admit]) does not wait in its writes.
	IdleTimeout time.Duration
	// DangerouslyReportOnly makes the Guard compare every token and refuse none. A token
	// that would have been refused is reported to Hooks, and the write proceeds
	// unguarded. The same happens to a newer token that has waited for older writers for
	// IdleTimeout. No session is ended or bounded. [guard.ErrClaimFirst] and ordinary
	// errors are still returned. False refuses.
	DangerouslyReportOnly bool
	// DangerouslyTrustEngine skips the engine check. Set it only if the engine is known
	// to fence as PostgreSQL does, or if all writers of a cluster write to one node.
	// False means that the Guard queries the server before the first admission on each
	// connection, in one round trip, and returns [guard.ErrUnfenced], with nothing
	// applied, if the engine is not known to fence. If DB is a pgx.Tx, the query is a
	// statement of that transaction. If DB is of the caller's own type, the query is sent
	// once for each value of DB.
	DangerouslyTrustEngine bool
	// Retention is how long [Guard.Once] records a unit at least, by the server's clock. A
	// repeat does not extend it. Zero means [guard.DefaultRetention], 30 days. Negative is
	// an error.
	Retention time.Duration
	// Hooks are called for refusals. The zero value calls none.
	Hooks guard.Hooks
}

// DB is what a Guard sends its batches over: a *pgxpool.Pool, *pgxpool.Conn, *pgx.Conn or
// pgx.Tx of pgx 5.12 or later. On a pgx.Tx the Guard works inside that transaction. On
// the others it begins its own.
type DB = interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

var (
	_ guard.Store      = (*Guard)(nil)
	_ guard.Identified = (*Guard)(nil)
)

// config converts the Guard for package pgwrite. The fields are the same.
func (g *Guard) config() *pgwrite.Config { return (*pgwrite.Config)(g) }

// call returns a call that admits the tokens of the resources. In report-only mode
// missing tokens are left out.
func (g *Guard) call(ctx context.Context, db DB, resources ...string) (*pgwrite.Call, error) {
	c, err := pgwrite.New(ctx, g.config(), db)
	if err != nil {
		return nil, err
	}
	c.Tokens = make([]token.Token, 0, len(resources))
	for _, resource := range resources {
		tok, err := c.Token(ctx, resource)
		if err != nil {
			return nil, err
		}
		if tok != (token.Token{}) {
			c.Tokens = append(c.Tokens, tok)
		}
	}
	return &c, nil
}

// Update is [Guard.Update] for a Guard that has only a DB, which is enough for most
// programs.
func Update(ctx context.Context, db DB, resource string, fn func(tx pgx.Tx) error) error {
	return (&Guard{DB: db}).Update(ctx, resource, fn)
}

// Update admits the token that ctx carries for resource, runs fn in the same transaction,
// and commits. The admission precedes every read of fn: fn sees the last write of every
// older token, and no newer token is admitted before the transaction ends. A nil error
// means that the transaction was committed.
//
// BEGIN and the admission share one round trip, so Update under a claimed token
// ([Guard.Admit]) takes as many round trips as the unguarded closure. A token that was
// not claimed is claimed first. If fn ran for more than 100 ms, Update pings the session
// before it sends COMMIT.
//
// If the token is refused, fn does not run. The error is [guard.ErrStale],
// [guard.ErrCollision], or the token package's error for a missing, released or
// incomplete token. An error or a panic of fn rolls back. Update returns fn's error
// unchanged, or joined to the outcome that it means ([guard.ErrRetryable],
// [guard.ErrEvicted]); a panic propagates. fn must not end the transaction or use it
// after it returns. The packet of the COMMIT has a check for that, which commits nothing
// of another transaction (ROLLBACK AND CHAIN), unless Tx has a CommitQuery. The first on
// a connection is prepared in one round trip more, and each in
// [pgx.QueryExecModeDescribeExec].
//
// If the connection fails after COMMIT was sent, Update settles the transaction: on a new
// connection it asks the server what became of it, and ends its session if it is still in
// progress. Update then returns nil, or [guard.ErrRetryable] or [guard.ErrEvicted]
// (nothing was applied). It returns [guard.ErrUnknown] if the server had a crash or
// another server was promoted in the meantime, if no server answers within 30 s, if the
// transaction is committed and its synchronous standbys do not have it by then, on
// Aurora, in report-only mode, and if fn ended the transaction. If ctx has ended, Update
// asks once.
//
// If ctx ends before fn returns, or fn fails, the transaction is rolled back, within 5 s
// if the server does not reply. After fn returned nil, COMMIT is not cut off and may take
// 30 s: a COMMIT that is cut off has an unknown outcome. The loss of the lease ends fn's
// context, but only the mark decides whether the write is applied. If Update returns an
// error after the loss, the error is joined to [token.ErrLost].
//
// If DB is a pgx.Tx, fn runs after a savepoint of that transaction, and the admission
// ends with the savepoint: see [Guard.Join]. A refusal rolls back to the savepoint.
// Nothing is applied before the outer transaction commits, and [guard.ErrRetryable] means
// that the outer transaction can be run again.
func (g *Guard) Update(ctx context.Context, resource string, fn func(tx pgx.Tx) error) error {
	return g.update(ctx, []string{resource}, fn)
}

// UpdateAll is [Guard.Update] for several resources. All are admitted in one round
// trip, in bytewise order, so that two callers never deadlock whatever order they give. A
// name given twice counts once. No names, or more than 1,000, are an error before
// anything is sent.
//
// Each name takes an entry in the server's lock table until the transaction ends, and two
// entries while it is claimed. The table has max_locks_per_transaction × (max_connections
// + max_prepared_transactions) entries for all sessions, 6,400 by default. If it is full,
// the error has SQLSTATE 53200 and nothing was applied: name fewer resources on a smaller
// server or with several such calls at once.
func (g *Guard) UpdateAll(ctx context.Context, resources []string, fn func(tx pgx.Tx) error) error {
	names, err := sorted(resources)
	if err != nil {
		return err
	}
	return g.update(ctx, names, fn)
}

func (g *Guard) update(ctx context.Context, resources []string, fn func(tx pgx.Tx) error) error {
	if err := g.config().CheckWritable(); err != nil {
		return err
	}
	c, err := g.call(ctx, g.DB, resources...)
	if err != nil {
		return err
	}
	return c.Update(ctx, fn)
}

// Join admits the token that ctx carries for resource in a transaction that the caller
// has begun. From then on the transaction may be idle for [Guard.IdleTimeout] at most.
// Call Join before the transaction reads anything that the write depends on, if possible
// as its first statement: an earlier read may lack an older token's last write. Two
// transactions that join several resources one by one in opposite orders deadlock: use
// [Guard.JoinAll].
//
// After an error the transaction is aborted: it can only be rolled back, or rolled back
// to an earlier savepoint. So a caller that ignores the error writes nothing. If the
// error occurred before anything was sent (no token, no resources, an ended ctx), Join
// sends a statement that fails, for 5 s at most, or closes the connection if it cannot
// send one. In report-only mode nothing is aborted.
//
// If the token is refused, the error is that of [Guard.Update]. Join returns
// [guard.ErrClaimFirst] if the transaction is REPEATABLE READ or SERIALIZABLE and the
// token is newer than the mark. It returns [guard.ErrRetryable] if
// older writers are still in their transactions after IdleTimeout. A claim before the
// transaction ([Guard.Admit]) prevents both.
//
// An admission ends with the transaction or savepoint in which it was made. After Join
// and a ROLLBACK TO a savepoint before it, writes are unguarded, and a stale write is
// applied. Call Join outside savepoints that may be rolled back.
func (g *Guard) Join(ctx context.Context, tx pgx.Tx, resource string) error {
	return g.JoinAll(ctx, tx, []string{resource})
}

// JoinAll is [Guard.Join] for several resources, at most 1,000 (see [Guard.UpdateAll]).
// All are admitted in one round trip, in bytewise order. A name given twice counts once.
// No names are an error, which aborts the transaction as every error does.
func (g *Guard) JoinAll(ctx context.Context, tx pgx.Tx, resources []string) error {
	joined := false
	defer func() { // also if a hook panics
		if !joined {
			pgwrite.Abort(ctx, g.config(), tx)
		}
	}()
	names, err := sorted(resources)
	if err != nil {
		return err
	}
	c, err := g.call(ctx, tx, names...)
	if err != nil {
		return err
	}
	err = c.Join(ctx)
	joined = err == nil
	return err
}

var errNoResources = errors.New("sqlguard: no resources")

// maxResources is how many resources one call may admit. Raising a mark takes two
// entries in the server's lock table, every other admission one. All sessions share the
// table, which has 6,400 entries by default. If it is full, this session and others fail
// with SQLSTATE 53200.
const maxResources = 1000

// sorted returns the names without duplicates, in bytewise order, so that two callers
// that admit the same resources never deadlock.
func sorted(resources []string) ([]string, error) {
	if len(resources) == 0 {
		return nil, errNoResources
	}
	names := slices.Clone(resources)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > maxResources {
		return nil, fmt.Errorf("sqlguard: nothing was sent: %d resources in one call, the limit is %d", len(names), maxResources)
	}
	return names, nil
}

// Admit claims tok: it raises the mark of tok's resource to tok in a transaction of its
// own, in one round trip. It implements [guard.Store]. When it returns nil, no older
// token can write any more, and every older write is visible. The mark is durable,
// whatever the session's synchronous_commit. Use Admit as the Claim of a
// [github.com/fencepost/fencepost/lock.Locker]: then the writes of the lease wait neither
// for older writers nor for each other's claims.
//
// If an issuer has raised this mark together with the grant, and has the same pool and
// schema as the Guard, Admit as the Locker's Claim returns nil and sends nothing.
//
// Admit waits for older writers as described at [Guard.IdleTimeout]. It returns a
// [*guard.StaleError] if the mark refuses tok, [token.ErrInvalid] if tok is incomplete,
// and another error if DB is a pgx.Tx. After [guard.ErrUnknown] the mark may be raised,
// and Admit can be called again with the same tok.
func (g *Guard) Admit(ctx context.Context, tok token.Token) error {
	if err := tok.Validate(); err != nil {
		return g.Hooks.Outcome(ctx, err, g.DangerouslyReportOnly)
	}
	if marks.Raised(ctx, tok, g.marks()) {
		return nil
	}
	c, err := g.call(ctx, g.DB)
	if err != nil {
		return err
	}
	c.Tokens = []token.Token{tok}
	s, err := c.Claim(ctx)
	if err != nil {
		return err
	}
	return s.Finish(nil)
}

// marks identifies the guard's marks if DB is a pool: guards and issuers that share a
// pool and a schema share the marks. Other DBs are not compared.
func (g *Guard) marks() marks.ID {
	pool, _ := g.DB.(*pgxpool.Pool)
	if pool == nil {
		return marks.ID{}
	}
	return marks.ID{DB: pool, Schema: cmp.Or(g.Schema, pgwrite.DefaultSchema)}
}

var errMintInTx = errors.New("sqlguard: Guard.DB is a transaction, and Mint must be durable when it returns: use MintTx, or set DB to a pool")

// Mint numbers an acquisition of a lock that does not number its holders. Call it right
// after the lock was acquired. In one durable transaction of its own on DB, in one round
// trip, it takes a number above the mark of resource, raises the mark to it, and returns
// ctx with the token: write under the returned context. From then on every older token is
// refused, whatever the lock reports, and what is read after Mint can be written back.
// [token.FromContext] returns the token itself.
//
// holder names this one acquisition: two acquisitions must never share a name. Mint does
// not raise the marks that rows of a
// [github.com/fencepost/fencepost/sqlguard/rowguard.Table] carry: call the Table's Claim
// right after it.
//
// Mint waits for older writers as described at [Guard.IdleTimeout]. It does not use Tx.
// It returns [token.ErrInvalid] if resource or holder is empty, too long, or not a valid
// name, and [token.ErrExhausted] if no number above the mark is left. After
// [guard.ErrUnknown], call Mint again. It returns an error if DB is a pgx.Tx: see
// [Guard.MintTx].
//
// The context beside an error has a token of resource without a number: under it, every
// guarded write returns [token.ErrInvalid], even if ctx has an older token of resource.
func (g *Guard) Mint(ctx context.Context, resource, holder string) (context.Context, error) {
	number, err := int64(0), errMintInTx
	if _, inTx := g.DB.(pgx.Tx); !inTx {
		number, err = g.mint(ctx, g.DB, resource, holder)
	}
	return token.NewContext(ctx, token.Token{Resource: resource, Number: number, Holder: holder}), err
}

// MintTx is [Guard.Mint] as a statement of a transaction that the caller has begun. The
// mark is raised when that transaction commits. MintTx also admits its token there, and
// other writers of resource wait until the transaction ends. Use the returned context
// elsewhere only after the COMMIT. MintTx returns [guard.ErrClaimFirst] if the transaction
// is REPEATABLE READ or SERIALIZABLE. It does not use DB.
func (g *Guard) MintTx(ctx context.Context, tx pgx.Tx, resource, holder string) (context.Context, error) {
	number, err := g.mint(ctx, tx, resource, holder)
	return token.NewContext(ctx, token.Token{Resource: resource, Number: number, Holder: holder}), err
}

// mint returns 0 beside an error.
func (g *Guard) mint(ctx context.Context, db DB, resource, holder string) (int64, error) {
	highest, err := token.New(resource, token.MaxNumber, holder)
	if err != nil {
		return 0, err
	}
	c, err := g.call(ctx, db)
	if err != nil {
		return 0, err
	}
	return c.Mint(ctx, highest)
}

// identity identifies the marks of a schema in a database.
type identity struct {
	servers  any // the hosts and ports of the configuration, or the DB if that has none
	database string
	schema   string
}

// Identity implements [guard.Identified]. Two Guards have the same identity if their
// schemas have the same name and their connections are configured for the same hosts,
// ports and database, in any pool. Names are compared as written: localhost differs from
// 127.0.0.1, and a pooler's port differs from the server's. If DB is not one of pgx's
// types, the value itself is compared.
func (g *Guard) Identity() any {
	id := identity{servers: g.DB, schema: cmp.Or(g.Schema, pgwrite.DefaultSchema)}
	if config := configOf(g.DB); config != nil {
		id.servers, id.database = servers(config), cmp.Or(config.Database, config.User)
	}
	return id
}

func configOf(db DB) *pgx.ConnConfig {
	switch db := db.(type) {
	case *pgxpool.Pool:
		return db.Config().ConnConfig
	case *pgx.Conn:
		return db.Config()
	case interface{ Conn() *pgx.Conn }: // *pgxpool.Conn, pgx.Tx
		return db.Conn().Config()
	}
	return nil
}

// servers returns all hosts that config names, sorted: the order in which a connection
// tries them is irrelevant.
func servers(config *pgx.ConnConfig) string {
	all := []string{address(config.Host, config.Port)}
	for _, other := range config.Fallbacks {
		all = append(all, address(other.Host, other.Port))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

func address(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
