package once_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// mode is how a worker applies a unit.
type mode string

const (
	once    mode = "Once"
	noOnce  mode = "a guarded write without Once"
	outside mode = "the unit recorded before the guarded write, outside of its transaction"
)

// setup is what a worker needs to begin.
type setup struct {
	Engine, URL string
	Mode        mode
}

// order is a range of units of one resource.
type order struct {
	Resource    string
	First, Last int // Last is not included
}

// report is a unit that was applied, and its result. The first one has no unit.
type report struct {
	Unit   int
	Result string
}

// work applies units in order. After each error it mints a new number and repeats, as
// often as needed.
func work(parent *subprocess.Parent) error {
	var s setup
	if err := parent.Receive(&s); err != nil {
		return err
	}
	st, err := engines[s.Engine].open(s.URL)
	if err != nil {
		return err
	}
	parent.Report(report{Unit: -1})
	return subprocess.Each(parent, func(o order) error {
		ctx, err := context.Background(), error(nil)
		for unit := o.First; unit < o.Last; {
			var result string
			if result, err = apply(ctx, st, s.Mode, o.Resource, unit); err == nil {
				parent.Report(report{unit, result})
				unit++
				continue
			}
			if errors.Is(err, guard.ErrKeyReused) {
				return err
			}
			time.Sleep(rand.N(5 * time.Millisecond)) // the server may be starting
			if tok, err := st.mint(o.Resource, fmt.Sprint("worker-", os.Getpid(), "-", unit)); err == nil {
				ctx = token.NewContext(context.Background(), tok)
			}
		}
		return nil
	})
}

func apply(ctx context.Context, st store, how mode, resource string, unit int) (string, error) {
	switch how {
	case once:
		return st.once(ctx, resource, guard.Unit{Key: fmt.Sprint("unit/", unit)}, unit)
	case outside:
		if first, err := st.record(ctx, unit); err != nil || !first {
			return "", err
		}
	case noOnce:
	}
	return "", st.write(ctx, resource, unit)
}

// store is a guard and the effects that it writes. An effect has no unique key: a unit
// that is applied twice has two.
type store interface {
	mint(resource, holder string) (token.Token, error)
	once(ctx context.Context, resource string, u guard.Unit, unit int) (string, error)
	write(ctx context.Context, resource string, unit int) error
	record(ctx context.Context, unit int) (first bool, err error)
}

type postgres struct {
	pool  *pgxpool.Pool
	guard *sqlguard.Guard
}

func openPostgres(url string) (store, error) {
	pool, err := pgxpool.New(context.Background(), url)
	return postgres{pool, &sqlguard.Guard{DB: pool}}, err
}

func (p postgres) mint(resource, holder string) (token.Token, error) {
	return p.guard.Mint(context.Background(), resource, holder)
}

func (p postgres) effect(ctx context.Context, tx pgx.Tx, unit int) (result []byte, err error) {
	var id int64
	err = tx.QueryRow(ctx, "INSERT INTO effects (unit) VALUES ($1) RETURNING id", unit).Scan(&id)
	return strconv.AppendInt(nil, id, 10), err
}

func (p postgres) once(ctx context.Context, resource string, u guard.Unit, unit int) (string, error) {
	result, err := p.guard.Once(ctx, resource, u, func(tx pgx.Tx) ([]byte, error) { return p.effect(ctx, tx, unit) })
	return string(result), err
}

func (p postgres) write(ctx context.Context, resource string, unit int) error {
	return p.guard.Update(ctx, resource, func(tx pgx.Tx) error {
		_, err := p.effect(ctx, tx, unit)
		return err
	})
}

func (p postgres) record(ctx context.Context, unit int) (bool, error) {
	tag, err := p.pool.Exec(ctx, "INSERT INTO recorded VALUES ($1) ON CONFLICT DO NOTHING", unit)
	return tag.RowsAffected() == 1, err
}

type mariadb struct {
	db    *sql.DB
	guard *stdsql.Guard
}

func openMariaDB(dsn string) (store, error) {
	db, err := sql.Open("mysql", dsn)
	return mariadb{db, &stdsql.Guard{DB: db, Dialect: stdsql.MySQL}}, err
}

func (m mariadb) mint(resource, holder string) (token.Token, error) {
	return m.guard.Mint(context.Background(), resource, holder)
}

func (m mariadb) effect(ctx context.Context, tx *sql.Tx, unit int) ([]byte, error) {
	done, err := tx.ExecContext(ctx, "INSERT INTO effects (unit) VALUES (?)", unit)
	if err != nil {
		return nil, err
	}
	id, err := done.LastInsertId()
	return strconv.AppendInt(nil, id, 10), err
}

func (m mariadb) once(ctx context.Context, resource string, u guard.Unit, unit int) (string, error) {
	result, err := m.guard.Once(ctx, resource, u, func(tx *sql.Tx) ([]byte, error) { return m.effect(ctx, tx, unit) })
	return string(result), err
}

func (m mariadb) write(ctx context.Context, resource string, unit int) error {
	return m.guard.Update(ctx, resource, func(tx *sql.Tx) error {
		_, err := m.effect(ctx, tx, unit)
		return err
	})
}

func (m mariadb) record(ctx context.Context, unit int) (bool, error) {
	done, err := m.db.ExecContext(ctx, "INSERT IGNORE INTO recorded VALUES (?)", unit)
	if err != nil {
		return false, err
	}
	rows, err := done.RowsAffected()
	return rows == 1, err
}

type redisStore struct {
	client *redis.Client
	guard  *redisguard.Guard
}

func openRedis(addr string) (store, error) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	return redisStore{client, &redisguard.Guard{Client: client}}, nil
}

// effectScript returns how often the unit was applied.
const effectScript = "return redis.call('HINCRBY', KEYS[1], ARGV[1], 1)"

var effectKeys = []string{"effects"}

func (r redisStore) mint(resource, holder string) (token.Token, error) {
	return r.guard.Mint(context.Background(), resource, holder)
}

func (r redisStore) once(ctx context.Context, resource string, u guard.Unit, unit int) (string, error) {
	result, err := r.guard.Once(ctx, resource, u, effectScript, effectKeys, unit)
	return fmt.Sprint(result), err
}

func (r redisStore) write(ctx context.Context, resource string, unit int) error {
	_, err := r.guard.Eval(ctx, resource, effectScript, effectKeys, unit)
	return err
}

func (r redisStore) record(ctx context.Context, unit int) (bool, error) {
	return r.client.SetNX(ctx, fmt.Sprint("recorded:", unit), 1, 0).Result()
}
