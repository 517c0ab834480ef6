package cut_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// first is a number above those that the clock mints.
const first = 500_000_000_000_000

// soon is how long a successor waits for a writer that was cut off.
const soon = 5 * time.Millisecond

func TestStressPostgres(t *testing.T) {
	t.Parallel()
	for _, mode := range usual(pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec) {
		t.Run("pgx, "+mode.String(), func(t *testing.T) {
			t.Parallel()
			p, direct := newPostgres(t)
			r, u := through(t, direct)
			p.site(r, u, mode).attack()
		})
	}
	t.Run("database/sql", func(t *testing.T) {
		t.Parallel()
		p, direct := newPostgres(t)
		r, u := through(t, direct)
		p.std(r, u).attack()
	})
}

func TestStressPostgresOverTLS(t *testing.T) {
	t.Parallel()
	p, secure := newTLSPostgres(t)
	t.Run("pgx", func(t *testing.T) {
		r, u := through(t, secure)
		p.of(t).site(r, u, pgx.QueryExecModeCacheStatement).attack()
	})
	t.Run("database/sql", func(t *testing.T) {
		r, u := through(t, secure)
		p.of(t).std(r, u).attack()
	})
}

// TestStressPgBouncer cuts a pooler off from its client, and from its server.
func TestStressPgBouncer(t *testing.T) {
	t.Parallel()
	for _, side := range []string{"client", "server"} {
		for _, mode := range usual(pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol) {
			t.Run(side+", "+mode.String(), func(t *testing.T) {
				t.Parallel()
				p, direct := newPostgres(t)
				back, _ := through(t, direct)
				pooler := testenv.OwnPgBouncer(t, back.addr())
				front, u := through(t, pooler)
				console := newConsole(t, pooler)
				cutting := map[string]*relay{"client": front, "server": back}[side]
				s := p.site(cutting, u, mode)
				if clients := s.fresh; side == "server" {
					s.fresh = func() {
						clients()
						_ = testenv.DropPooled(t.Context(), pooler) // an error means that it has no session yet
					}
				}
				s.quiet = func(ports []int) bool {
					if side == "client" {
						return console.left(ports) && back.over(p.gone)
					}
					return p.gone(ports)
				}
				s.attack()
			})
		}
	}
}

// usual returns all modes except the last, or all of them if every byte is cut.
func usual(modes ...pgx.QueryExecMode) []pgx.QueryExecMode {
	if os.Getenv(envCuts) == "" {
		return modes[:len(modes)-1]
	}
	return modes
}

// console is the console of a pooler.
type console struct {
	*testing.T
	conn *pgx.Conn
}

func newConsole(t *testing.T, pooler string) console {
	t.Helper()
	config, err := pgx.ParseConfig(pooler)
	require.NoError(t, err)
	config.Database, config.DefaultQueryExecMode = "pgbouncer", pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return console{t, conn}
}

// left reports whether no client of the pooler has one of the ports.
func (c console) left(ports []int) bool {
	results, err := c.conn.PgConn().Exec(c.Context(), "SHOW CLIENTS").ReadAll()
	require.NoError(c, err)
	for _, row := range results[0].Rows {
		for i, field := range results[0].FieldDescriptions {
			port, _ := strconv.Atoi(string(row[i]))
			if field.Name == "port" && slices.Contains(ports, port) {
				return false
			}
		}
	}
	return true
}

// through returns a relay to the server of a URL, and the URL through the relay.
func through(t *testing.T, to string) (*relay, string) {
	t.Helper()
	u, err := url.Parse(to)
	require.NoError(t, err)
	r := newRelay(t, u.Host)
	u.Host = r.addr()
	return r, u.String()
}

// postgres is a schema with an account whose writes are counted.
type postgres struct {
	*testing.T
	clean  *pgxpool.Pool
	schema string
}

// newPostgres starts a server for this test, and also returns its direct URL. A server in
// a container would not see the ports that gone checks.
func newPostgres(t *testing.T, settings ...string) (p postgres, direct string) {
	t.Helper()
	server := testenv.OwnPostgres(t, settings...)
	testenv.Migrate(t, server.URL())
	pool, err := pgxpool.New(t.Context(), server.URL())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	p = postgres{t, pool, "fencepost"}
	p.make()
	return p, server.URL()
}

func newTLSPostgres(t *testing.T) (p postgres, secure string) {
	t.Helper()
	cert, key := serverproc.Certificate(t)
	p, direct := newPostgres(t, "ssl=on", "ssl_cert_file="+cert, "ssl_key_file="+key)
	return p, strings.Replace(direct, "sslmode=disable", "sslmode=verify-full&sslrootcert="+cert, 1)
}

// of returns p without marks, for another test.
func (p postgres) of(t *testing.T) postgres {
	p.T = t
	p.exec("DELETE FROM {schema}.marks")
	return p
}

func (p postgres) make() {
	pgtest.Accounts(p, p.clean, p.schema)
	p.exec(`SELECT {schema}.add_mark_columns('{schema}.accounts'::text::regclass);
		CREATE TABLE writes (id bigint);
		CREATE FUNCTION {schema}.count_write() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN INSERT INTO {schema}.writes VALUES (1); RETURN NULL; END';
		CREATE TRIGGER count AFTER INSERT OR DELETE OR UPDATE OF balance ON {schema}.accounts
			FOR EACH ROW EXECUTE FUNCTION {schema}.count_write();
		CREATE TABLE raises (holder text);
		CREATE FUNCTION {schema}.count_raise() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN INSERT INTO {schema}.raises VALUES (NEW.holder); RETURN NULL; END';
		CREATE TRIGGER count AFTER INSERT OR UPDATE ON {schema}.marks FOR EACH ROW EXECUTE FUNCTION {schema}.count_raise()`)
}

func (p postgres) sql(text string) string {
	return strings.NewReplacer("{schema}", p.schema, "TABLE ", "TABLE "+p.schema+".").Replace(text)
}

func (p postgres) exec(text string) {
	_, err := p.clean.Exec(context.WithoutCancel(p.Context()), p.sql(text), pgx.QueryExecModeSimpleProtocol)
	require.NoError(p, err)
}

func (p postgres) number(text string, args ...any) (n int64) {
	require.NoError(p, p.clean.QueryRow(p.Context(), p.sql(text), args...).Scan(&n))
	return n
}

// gone reports whether no session comes from one of the ports.
func (p postgres) gone(ports []int) bool {
	return p.number("SELECT count(*) FROM pg_stat_activity WHERE client_port = ANY ($1)", ports) == 0
}

const add = "UPDATE {schema}.accounts SET balance = balance + 1 WHERE id = 42"

func (p postgres) door(name string, row bool, do func(context.Context) error) door {
	d := door{name: name, do: do, tokens: everyToken, settled: strings.HasPrefix(name, "Update") || name == "Once"}
	g := &sqlguard.Guard{DB: p.clean, Schema: p.schema, IdleTimeout: soon}
	d.claim = func(ctx context.Context, tok token.Token) error {
		second := tok
		second.Resource = neighbour
		return errors.Join(g.Admit(ctx, tok), g.Admit(ctx, second))
	}
	if row {
		t := p.table(g)
		d.claim = t.Claim
	}
	d.reset = func() {
		p.exec("INSERT INTO {schema}.accounts (id) VALUES (42) ON CONFLICT DO NOTHING; DELETE FROM {schema}.writes; DELETE FROM {schema}.raises")
	}
	d.count = func(token.Token) int64 { return p.number("SELECT count(*) FROM {schema}.writes") }
	return d
}

// absent is a door that requires the account to be absent.
func (d door) absent(p postgres) door {
	d.reset = func() {
		p.exec("DELETE FROM {schema}.accounts; DELETE FROM {schema}.writes; DELETE FROM {schema}.raises")
	}
	return d
}

// unadmitted is a door whose session a successor does not end: see Table.Claim.
func (d door) unadmitted() door { d.bare = true; return d }

// applies is a door that applies w once.
func (d door) applies(w *work) door { d.once = w; return d }

// marks is a door that writes only the mark, of a holder whose name has this prefix.
func (d door) marks(p postgres, holder string, tokens ...string) door {
	d.tokens = tokens
	d.count = func(tok token.Token) int64 {
		return min(1, p.number("SELECT count(*) FROM {schema}.raises WHERE holder = $1", holder+tok.Holder))
	}
	return d
}

func (p postgres) table(g *sqlguard.Guard) *rowguard.Table {
	return &rowguard.Table{Guard: g, Name: pgx.Identifier{p.schema, "accounts"}, Prefix: "account/"}
}

// site returns pgx behind a relay.
func (p postgres) site(r *relay, url string, mode pgx.QueryExecMode) *site {
	config, err := pgxpool.ParseConfig(url)
	require.NoError(p, err)
	config.MaxConns = 2
	config.ConnConfig.DefaultQueryExecMode = mode
	pool, err := pgxpool.NewWithConfig(p.Context(), config)
	require.NoError(p, err)
	p.Cleanup(pool.Close)
	return &site{
		T: p.T, name: p.Name(), relay: r, number: first, evicts: true, quiet: p.gone, fresh: pool.Reset,
		check: func() error { return p.check(pool) }, doors: p.doors(&sqlguard.Guard{DB: pool, Schema: p.schema}, pool),
	}
}

// check finds connections that were not returned, or were returned with changed settings.
func (p postgres) check(pool *pgxpool.Pool) error {
	if n := pool.Stat().AcquiredConns(); n > 0 {
		return fmt.Errorf("%d connections were not returned", n)
	}
	var found []error
	for _, conn := range pool.AcquireAllIdle(p.Context()) {
		var idle, lock string
		status := conn.Conn().PgConn().TxStatus()
		err := conn.QueryRow(p.Context(), "SELECT current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout')").Scan(&idle, &lock)
		if status != 'I' || err == nil && idle+lock != "00" {
			found = append(found, fmt.Errorf("transaction %c, idle %s, lock %s", status, idle, lock))
		}
		conn.Release()
	}
	return errors.Join(found...)
}

func (p postgres) doors(g *sqlguard.Guard, pool *pgxpool.Pool) []door {
	write, rows := p.sql(add), p.table(g)
	update := func(ctx context.Context) func(pgx.Tx) error {
		return func(tx pgx.Tx) error { _, err := tx.Exec(ctx, write); return err }
	}
	of := func(ctx context.Context) token.Token {
		tok, err := token.FromContext(ctx, resource)
		require.NoError(p, err)
		return tok
	}
	set, paid := rowguard.Set{"balance": 7}, new(work)
	return []door{
		p.door("Update", false, func(ctx context.Context) error { return g.Update(ctx, resource, update(ctx)) }),
		p.door("UpdateAll", false, func(ctx context.Context) error {
			return g.UpdateAll(ctx, []string{resource, neighbour}, update(ctx))
		}),
		p.door("Once", false, func(ctx context.Context) error {
			_, err := g.Once(ctx, resource, paid.unit(), func(tx pgx.Tx) ([]byte, error) { return []byte("paid"), update(ctx)(tx) })
			return err
		}).applies(paid),
		p.door("On.Exec", false, func(ctx context.Context) error { _, err := g.On(resource).Exec(ctx, write); return err }),
		p.door("On.Query", false, func(ctx context.Context) error {
			rows, err := g.On(resource).Query(ctx, write+" RETURNING id")
			if err == nil {
				_, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			}
			return err
		}),
		p.door("On.QueryRow", false, func(ctx context.Context) error {
			var id int64
			return g.On(resource).QueryRow(ctx, write+" RETURNING id").Scan(&id)
		}),
		p.door("On.SendBatch", false, func(ctx context.Context) error {
			b := &pgx.Batch{}
			b.Queue("SELECT 1")
			b.Queue(write)
			return g.On(resource).SendBatch(ctx, b).Close()
		}),
		p.door("On.CopyFrom", false, func(ctx context.Context) error {
			_, err := g.On(resource).CopyFrom(ctx, pgx.Identifier{p.schema, "accounts"}, []string{"id"}, pgx.CopyFromRows([][]any{{int64(42)}}))
			return err
		}).absent(p),
		p.door("Join", false, func(ctx context.Context) error { return p.join(ctx, g, pool, update(ctx)) }),
		p.door("Admit", false, func(ctx context.Context) error { return g.Admit(ctx, of(ctx)) }).marks(p, "", "new", "stale"),
		p.door("Mint", false, func(ctx context.Context) error {
			_, err := g.Mint(ctx, resource, "m"+of(ctx).Holder)
			return err
		}).marks(p, "m", "new"),
		p.door("Table.Claim", true, func(ctx context.Context) error { return rows.Claim(ctx, of(ctx)) }).marks(p, "", "new", "stale"),
		p.door("Table.Update", true, func(ctx context.Context) error { return rows.Update(ctx, 42, set) }).unadmitted(),
		p.door("Table.Upsert", true, func(ctx context.Context) error { return rows.Upsert(ctx, 42, set) }),
		p.door("Table.Insert", true, func(ctx context.Context) error { return rows.Insert(ctx, 42, set) }).absent(p),
		p.door("Table.Delete", true, func(ctx context.Context) error { return rows.Delete(ctx, 42) }),
	}
}

// join is a transaction of the caller's. The caller has to find out the outcome of its
// COMMIT.
func (p postgres) join(ctx context.Context, g *sqlguard.Guard, pool *pgxpool.Pool, fn func(pgx.Tx) error) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if err := g.Join(ctx, tx, resource); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("%w: %w", guard.ErrUnknown, err)
	}
	return nil
}

// std returns database/sql behind a relay.
func (p postgres) std(r *relay, url string) *site {
	db, err := sql.Open("pgx", url)
	require.NoError(p, err)
	p.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(2)
	g := &stdsql.Guard{DB: db, Schema: p.schema}
	s := &site{
		T: p.T, name: p.Name(), relay: r, number: first, evicts: true, quiet: p.gone, fresh: renew(db),
		check: func() error {
			return checked(p.T, db, "SELECT current_setting('idle_in_transaction_session_timeout') || current_setting('lock_timeout')", "00")
		},
	}
	for _, d := range stdDoors(p.T, db, g, p.sql(add)) {
		made := p.door(d.name, false, d.do).applies(d.once)
		if d.name == "Admit" {
			made = made.marks(p, "", "new", "stale")
		}
		s.doors = append(s.doors, made)
	}
	return s
}

// renew returns a function that ends the connections of db.
func renew(db *sql.DB) func() {
	return func() {
		db.SetMaxIdleConns(-1)
		db.SetMaxIdleConns(2)
	}
}

// checked finds connections that were not returned, or were returned with changed
// settings.
func checked(t *testing.T, db *sql.DB, settings, want string) error {
	if n := db.Stats().InUse; n > 0 {
		return fmt.Errorf("%d connections were not returned", n)
	}
	var found []error
	for range db.Stats().Idle {
		conn, err := db.Conn(t.Context())
		if err != nil {
			continue
		}
		defer conn.Close()
		var is string
		if err := conn.QueryRowContext(t.Context(), settings).Scan(&is); err == nil && is != want {
			found = append(found, fmt.Errorf("the settings are %s", is))
		}
	}
	return errors.Join(found...)
}

// stdDoors returns the doors of database/sql.
func stdDoors(t *testing.T, db *sql.DB, g *stdsql.Guard, write string) []door {
	update := func(ctx context.Context) func(*sql.Tx) error {
		return func(tx *sql.Tx) error { _, err := tx.ExecContext(ctx, write); return err }
	}
	paid := new(work)
	return []door{
		{name: "Update", do: func(ctx context.Context) error { return g.Update(ctx, resource, update(ctx)) }},
		{name: "Once", once: paid, do: func(ctx context.Context) error {
			_, err := g.Once(ctx, resource, paid.unit(), func(tx *sql.Tx) ([]byte, error) { return []byte("paid"), update(ctx)(tx) })
			return err
		}},
		{name: "UpdateAll", do: func(ctx context.Context) error {
			return g.UpdateAll(ctx, []string{resource, neighbour}, update(ctx))
		}},
		{name: "Join", do: func(ctx context.Context) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := g.Join(ctx, tx, resource); err != nil {
				return err
			}
			if err := update(ctx)(tx); err != nil {
				return err
			}
			if err := tx.Commit(); err != nil {
				return fmt.Errorf("%w: %w", guard.ErrUnknown, err)
			}
			return nil
		}},
		{name: "Admit", do: func(ctx context.Context) error {
			tok, err := token.FromContext(ctx, resource)
			require.NoError(t, err)
			return g.Admit(ctx, tok)
		}},
	}
}
