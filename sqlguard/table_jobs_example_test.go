package sqlguard_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// Jobs is a queue in a table. Whoever takes a job numbers itself in the row.
type Jobs struct {
	db interface {
		sqlguard.DB
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}
}

func (j Jobs) rows() *sqlguard.Table {
	return &sqlguard.Table{Guard: &sqlguard.Guard{DB: j.db}, Name: pgx.Identifier{"jobs"}, Prefix: "job/"}
}

// Take takes the next job that is ready, or that its worker has not finished in
// time. The number is above the mark, and the mark is raised to it: the worker
// before, should it wake up, finishes nothing.
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

// Finish is refused where the job was given to another worker meanwhile.
func (j Jobs) Finish(ctx context.Context, id int64) error {
	return j.rows().Update(ctx, id, sqlguard.Set{{"state", "done"}})
}

// A queue of jobs, claimed with SKIP LOCKED, is a lock that has no numbers: it
// draws them from the row. The worker's name is that of one attempt.
func ExampleTable_skipLocked() {
	jobs := Jobs{db: pool}
	id, tok, err := jobs.Take(ctx, "worker-7:attempt-1")
	if err != nil {
		return
	}
	// the work, for as long as it takes
	fmt.Println(jobs.Finish(token.NewContext(ctx, tok), id))
}
