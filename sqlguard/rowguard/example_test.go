package rowguard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
)

var (
	ctx      context.Context
	pool     *pgxpool.Pool
	issuer   token.Issuer
	accounts = &rowguard.Table{Guard: &sqlguard.Guard{DB: pool}, Name: pgx.Identifier{"accounts"}, Prefix: "account/"}
)

// Accounts is a repository whose rows carry their own mark. Its methods take the token
// from the context.
type Accounts struct {
	pool *pgxpool.Pool
	rows *rowguard.Table
}

func NewAccounts(pool *pgxpool.Pool) *Accounts {
	return &Accounts{pool: pool, rows: &rowguard.Table{
		Guard: &sqlguard.Guard{DB: pool}, Name: pgx.Identifier{"accounts"}, Prefix: "account/",
	}}
}

// Claim is for the locker of programs that work on accounts.
func (a *Accounts) Claim(ctx context.Context, tok token.Token) error { return a.rows.Claim(ctx, tok) }

// Withdraw reads, decides, and writes. If the row was claimed before, no older token
// writes between the read and the write, and if a newer token was claimed meanwhile, the
// write is refused.
func (a *Accounts) Withdraw(ctx context.Context, id, amount int64) error {
	var balance int64
	if err := a.pool.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = $1", id).Scan(&balance); err != nil {
		return err
	}
	if balance < amount {
		return errors.New("not enough")
	}
	return a.rows.Update(ctx, id, rowguard.Set{"balance": balance - amount})
}

func ExampleTable() {
	accounts := NewAccounts(pool)
	locks := &lock.Locker{Issuer: issuer, Claim: accounts.Claim}
	err := locks.Hold(ctx, "account/42", func(ctx context.Context) error {
		return accounts.Withdraw(ctx, 42, 50)
	})
	switch {
	case errors.Is(err, guard.ErrStale):
		fmt.Println("the lock has passed on, nothing was written")
	case errors.Is(err, guard.ErrRowNotFound):
		fmt.Println("there is no account 42")
	}
}

// A Table claims rows that carry their own mark, and the guard claims everything else. A
// Locker has one Claim, which selects by the resource's name.
func ExampleTable_Claim_severalKinds() {
	var (
		fence    *sqlguard.Guard
		accounts *rowguard.Table
		issuer   token.Issuer
	)
	claim := func(ctx context.Context, tok token.Token) error {
		if strings.HasPrefix(tok.Resource, accounts.Prefix) {
			return accounts.Claim(ctx, tok)
		}
		return fence.Admit(ctx, tok)
	}
	locks := &lock.Locker{Issuer: issuer, Claim: claim}
	_ = locks
}

// Jobs is a queue in a table. A worker that takes a job writes a new number to the row.
type Jobs struct {
	db interface {
		sqlguard.DB
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}
}

func (j Jobs) rows() *rowguard.Table {
	return &rowguard.Table{Guard: &sqlguard.Guard{DB: j.db}, Name: pgx.Identifier{"jobs"}, Prefix: "job/"}
}

// Take takes the next job that is ready, or that its worker has not finished in time. The
// number is above the mark, and the mark is raised to it. So a previous worker that
// continues cannot finish the job.
func (j Jobs) Take(ctx context.Context, worker string) (id int64, tok token.Token, err error) {
	err = j.db.QueryRow(ctx, `
		UPDATE jobs SET state = 'running', until = now() + interval '1 minute', last_holder = $1,
		       last_token = greatest(last_token + 1, (extract(epoch FROM clock_timestamp()) * 100000)::bigint)
		 WHERE id = (SELECT id FROM jobs WHERE state = 'ready' OR state = 'running' AND until < now()
		              ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1)
		RETURNING id, last_token`, worker).Scan(&id, &tok.Number)
	if err != nil {
		return 0, token.Token{}, err
	}
	tok, err = token.New(fmt.Sprint("job/", id), tok.Number, worker)
	return id, tok, err
}

// Finish is refused if the job was given to another worker meanwhile.
func (j Jobs) Finish(ctx context.Context, id int64) error {
	return j.rows().Update(ctx, id, rowguard.Set{"state": "done"})
}

// A queue of jobs, claimed with SKIP LOCKED, is a lock without numbers: it takes them
// from the row. The worker's name identifies one attempt.
func ExampleTable_skipLocked() {
	jobs := Jobs{db: pool}
	id, tok, err := jobs.Take(ctx, "worker-7:attempt-1")
	if err != nil {
		return
	}
	// the work, for as long as it takes
	fmt.Println(jobs.Finish(token.NewContext(ctx, tok), id))
}
