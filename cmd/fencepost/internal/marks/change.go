package marks

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/internal/pgadmit"
	"github.com/fencepost/fencepost/token"
)

var (
	prunes = rights([]string{"prune(bigint, integer)", "prune_units(integer)"}, "SELECT, DELETE", "SELECT, UPDATE", engine.TableRights{Table: "fencepost_units", Rights: "SELECT, DELETE"})
	resets = rights([]string{"reset(text, bigint)"}, "SELECT, UPDATE", "SELECT")
)

const (
	// prunable returns the cutoff, which is $1 before the clock, the floor, the number of
	// marks below the cutoff, and the number of marks.
	prunable = `SELECT c.cutoff, f.number, (SELECT count(*) FROM {marks} WHERE number < c.cutoff), (SELECT count(*) FROM {marks})
	              FROM (SELECT {clock} - $1 AS cutoff) c CROSS JOIN {floor} f`
	oldMarks = `SELECT count(*) FROM {marks} WHERE number < $1`
)

type pruneCmd struct {
	OlderThan time.Duration `required:"" placeholder:"DURATION" help:"Delete marks whose tokens were issued longer ago than this, as 30d."`
	Young     bool          `name:"dangerously-young" help:"Allow less than 24h."`
	DryRun    bool          `help:"Print what would be deleted, and change nothing."`
	JSON      bool          `name:"json" help:"Print one JSON object instead."`
}

// Help is printed by --help below the usage line.
func (pruneCmd) Help() string {
	return `Raises the floor to the cutoff, then deletes the marks below it, and the units of Once whose Retention has passed. Choose a ` +
		`duration longer than your longest hold: afterwards a token older than the cutoff is refused if its resource has no mark, also ` +
		`that of a lease that is still valid and has not claimed or written yet. Marks of busy resources are kept: see docs/migrations.md.

Examples:
  fencepost marks prune --postgres postgres://janitor@db/shop --older-than 30d --dry-run
  FENCEPOST_MYSQL_DSN='janitor:secret@tcp(db:3306)/shop' fencepost marks prune --older-than 30d`
}

// pruned is the object of JSON.
type pruned struct {
	DryRun bool      `json:"dry_run"`
	Marks  int       `json:"marks"`        // before the prune
	Old    int       `json:"old"`          // the marks below the cutoff
	Pruned int       `json:"pruned"`       // the old marks that are not there, or not old, at the end
	Free   int       `json:"free"`         // the records of free leases that are deleted
	Units  int       `json:"units"`        // the units whose time had passed that are deleted
	Floor  Number    `json:"floor,string"` // after the prune, also in a dry run
	Time   time.Time `json:"floor_time"`
}

// Run is called by kong.
func (c *pruneCmd) Run(std cli.Streams, m *Cmd) error {
	switch {
	case c.OlderThan <= 0:
		return fmt.Errorf("older-than: %s: must be above 0, or new tokens would be refused", c.OlderThan)
	case c.OlderThan < 24*time.Hour && !c.Young: // far above the age of a usual lease
		return fmt.Errorf("older-than: %s: a lease that is older, and has not claimed or written yet, would be refused; less than 24h needs --dangerously-young", c.OlderThan)
	}
	needs := prunes
	if c.DryRun {
		needs = reads
	}
	return m.withDatabase(needs, func(ctx context.Context, db *database) error {
		p, cutoff, left := &pruned{DryRun: c.DryRun}, Number(0), 0
		if err := db.row(ctx, prunable, []any{int64(c.OlderThan / unit)}, &cutoff, &p.Floor, &p.Old, &p.Marks); err != nil {
			return err
		}
		p.Floor = max(cutoff, p.Floor)
		p.Time = p.Floor.Time()
		if c.DryRun {
			text := fmt.Sprintf("%d of %d marks would be deleted, and the floor would be %d (%s).\n", p.Old, p.Marks, p.Floor, p.Floor.Date())
			return cli.PrintResult(std.Out, c.JSON, p, text)
		}
		rows, units, err := prune(ctx, db, int64(cutoff))
		if err == nil {
			err = db.row(ctx, oldMarks, []any{int64(cutoff)}, &left)
		}
		if err != nil {
			return fmt.Errorf("marks: stopped after %d deleted rows and %d units: %w", rows, units, err)
		}
		p.Pruned, p.Units = p.Old-left, units
		p.Free = max(0, rows-p.Pruned)
		text := fmt.Sprintf("%d of %d marks are deleted, and the floor is %d (%s).\n", p.Pruned, p.Marks, p.Floor, p.Floor.Date()) +
			fmt.Sprintf("%d old marks are kept: their resources were busy, or their leases are valid.\n", left) +
			fmt.Sprintf("%d records of free leases and %d expired units of Once are deleted.\n", p.Free, units)
		return cli.PrintResult(std.Out, c.JSON, p, text)
	})
}

type resetCmd struct {
	Resource string        `arg:"" help:"The resource, by its whole name."`
	Confirm  string        `placeholder:"RESOURCE" help:"Do not ask for the resource."`
	Number   *int64        `placeholder:"N" help:"The mark's new number instead of the server's clock, between the floor and a day after that clock. A mark that is not above the clock can be lowered only with it."`
	Wait     time.Duration `default:"10s" help:"How long to wait for transactions that are admitted, at least 1ms. On MySQL in whole seconds, rounded up."`
	JSON     bool          `name:"json" help:"Print one JSON object instead."`
}

// Help is printed by --help below the usage line.
func (resetCmd) Help() string {
	return `A forged token with a huge number raises a mark so far that no issuer ever reaches it, and every write is refused. Reset lowers the ` +
		`mark to the server's clock. The current holder must then acquire the resource again. Find the source of the forged token first: ` +
		`that token, and every other above the new mark, is admitted again. If an issuer's clock is ahead of the server's, use a --number ` +
		`above every number that it has issued.

Examples:
  fencepost marks reset account/42 --postgres postgres://operator@db/shop
  FENCEPOST_MYSQL_DSN='operator:secret@tcp(db:3306)/shop' fencepost marks reset account/42 --confirm account/42`
}

// Run is called by kong.
func (c *resetCmd) Run(std cli.Streams, m *Cmd) error {
	if c.Wait < time.Millisecond {
		return fmt.Errorf("wait: %s: must be at least 1ms", c.Wait)
	}
	if err := token.ValidateResource(c.Resource); err != nil {
		return err
	}
	return m.withDatabase(resets, func(ctx context.Context, db *database) error {
		old, err := db.show(ctx, c.Resource)
		if err != nil {
			return err
		}
		if _, err := c.check(old); err != nil {
			return err
		}
		if err := c.confirm(ctx, std, old); err != nil {
			return err
		}
		fresh, err := reset(ctx, db, c)
		if lockTimedOut(err) {
			err = fmt.Errorf("marks: a writer is still admitted for %s, see fencepost marks show, or on MySQL SHOW ENGINE INNODB STATUS: %w", cli.Visible(c.Resource), err)
		}
		if err != nil {
			return err
		}
		object := struct {
			Resource string    `json:"resource"`
			Old      *mark     `json:"old"`
			Number   Number    `json:"number,string"`
			Time     time.Time `json:"time"`
		}{c.Resource, old.Mark, fresh, fresh.Time()}
		text := fmt.Sprintf("The mark of %s was %d, of %s. It is %d (%s) now. %s",
			cli.Visible(c.Resource), old.Mark.Number, cli.Visible(old.Mark.Holder), fresh, fresh.Date(), db.afterReset(c.Number))
		return cli.PrintResult(std.Out, c.JSON, object, text)
	})
}

// check returns the mark's new number, or why the mark is not reset. It is called before
// the user types the confirmation, and on MySQL again while the mark is locked.
func (c *resetCmd) check(now *state) (fresh Number, err error) {
	name := cli.Visible(c.Resource)
	if now.Mark == nil {
		return 0, fmt.Errorf("marks: %s has no mark: nothing to reset", name)
	}
	fresh = now.Clock
	if c.Number != nil {
		fresh = Number(*c.Number)
	}
	switch {
	case c.Number == nil && now.Mark.Number <= now.Clock:
		err = fmt.Errorf("marks: the mark of %s is not above the server's clock, so issuers reach it: --number=N resets it all the same", name)
	case fresh > token.MaxNumber:
		err = fmt.Errorf("marks: number %d must be at most %d", fresh, int64(token.MaxNumber))
	case fresh > now.Clock+Number(24*time.Hour/unit):
		err = fmt.Errorf("marks: number %d is %s, %s, more than a day: every token up to it would be refused", fresh, fresh.Date(), fresh.Age(now.Clock))
	case fresh < max(now.Floor, 1):
		err = fmt.Errorf("marks: number %d must be at least %d: below the floor every token is stale", fresh, max(now.Floor, 1))
	}
	return fresh, err
}

// confirm shows the mark and prompts for the name of the resource, unless --confirm is set.
func (c *resetCmd) confirm(ctx context.Context, std cli.Streams, old *state) (err error) {
	answer, n := c.Confirm, old.Mark.Number
	if answer == "" {
		fmt.Fprintf(std.Err, "The mark of %s is %d (%s, %s), of %s.\nType the resource to lower its mark: ",
			cli.Visible(c.Resource), n, n.Date(), n.Age(old.Clock), cli.Visible(old.Mark.Holder))
		answer, err = cli.ReadLine(ctx, std)
	}
	if err == nil && answer != c.Resource {
		err = fmt.Errorf("nothing was changed: %q is not the resource, %q", answer, c.Resource)
	}
	return err
}

// afterReset returns what else an operator must know. given is --number.
func (db *database) afterReset(given *int64) string {
	if db.schema == "" {
		return "MySQL does not log the old mark: keep this output if you need it.\n"
	}
	fresh := db.schema + ".number_at(now())"
	if given != nil { // its issuer may not count from the clock
		fresh = fmt.Sprint(*given)
	}
	return "The server's log has the old mark.\nA row with its own mark (rowguard.Table) keeps it. Lower it too: UPDATE … SET last_token = " +
		fresh + ", last_holder = 'reset', after SELECT " + db.schema + ".bypass(…) in the same transaction if the table is protected.\n"
}

// lockTimedOut reports whether a statement has waited for a lock for too long.
func lockTimedOut(err error) bool {
	var pg *pgconn.PgError
	const mysqlLockWait = 1205
	return engine.MySQLNumber(err) == mysqlLockWait || errors.As(err, &pg) && pg.Code == pgadmit.LockTimeout
}

// prune raises the floor to the cutoff, deletes the marks below it except those of busy
// resources, and then expired units. It returns how many rows and units it has deleted, also
// with an error. On PostgreSQL it calls functions of the schema, which take the locks.
func prune(ctx context.Context, db *database, cutoff int64) (rows, units int, err error) {
	if db.schema == "" {
		return pruneMySQL(ctx, db, cutoff)
	}
	for _, step := range []struct {
		text string
		args []any
		sum  *int
	}{{"SELECT {schema}.prune($1)", []any{cutoff}, &rows}, {"SELECT {schema}.prune_units()", nil, &units}} {
		for n := 1; n > 0; *step.sum += n {
			if err := db.row(ctx, step.text, step.args, &n); err != nil {
				return rows, units, err
			}
		}
	}
	return rows, units, nil
}

// reset lowers the mark, and returns its new number. It waits for the transactions that are
// admitted for the resource, for c.Wait. On PostgreSQL it sets lock_timeout for its transaction
// only: behind a pooler in transaction mode the reset could have another session, and other
// clients get the session that has the setting.
func reset(ctx context.Context, db *database, c *resetCmd) (fresh Number, err error) {
	if db.schema == "" {
		return resetMySQL(ctx, db, c)
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	wait := min(c.Wait.Milliseconds(), math.MaxInt32) // the server's limit
	_, err = tx.ExecContext(ctx, "SELECT set_config('lock_timeout', $1, true)", fmt.Sprint(wait))
	if err == nil {
		err = db.row(ctx, "SELECT {schema}.reset($1, $2)", []any{c.Resource, c.Number}, &fresh)
	}
	if err == nil {
		err = tx.Commit()
	}
	return fresh, err
}

// waitForLocks bounds the waits for locks, in whole seconds and not shorter than d, up to
// MariaDB's limit, which is lower than MySQL's.
func waitForLocks(ctx context.Context, db *database, d time.Duration) error {
	seconds := (min(d, 100_000_000*time.Second) + time.Second - 1) / time.Second
	_, err := db.ExecContext(ctx, fmt.Sprintf("SET autocommit = 1, SESSION innodb_lock_wait_timeout = %d", seconds))
	return err
}

// pruneMySQL does what prune does, in short transactions.
func pruneMySQL(ctx context.Context, db *database, cutoff int64) (rows, units int, err error) {
	if err = waitForLocks(ctx, db, time.Second); err == nil {
		err = raiseFloor(ctx, db, cutoff)
	}
	// MariaDB then waits for no busy row, where writers would queue behind the DELETE. MySQL's
	// least wait is a second: it takes 0 for that, or refuses it and keeps the second.
	_ = waitForLocks(ctx, db, 0)
	if err == nil {
		rows, err = deleteEach(ctx, db, "DELETE FROM fencepost_marks WHERE resource = ? AND number = ?",
			"SELECT resource, number FROM fencepost_marks WHERE number < ? ORDER BY resource LIMIT 2000 OFFSET ?", cutoff)
	}
	if err == nil {
		units, err = deleteEach(ctx, db, "DELETE FROM fencepost_units WHERE resource = ? AND `key` = ? AND kept_until < UNIX_TIMESTAMP()",
			"SELECT resource, `key` FROM fencepost_units WHERE kept_until < UNIX_TIMESTAMP() ORDER BY resource, `key` LIMIT 2000 OFFSET ?")
	}
	return rows, units, err
}

// raiseFloor waits for claims in progress: a claim that has compared its token with the old
// floor shares the floor's row until its mark is raised. It tries ten times, because claims of
// other resources queue for that row behind it, while that claim may wait for older writers.
func raiseFloor(ctx context.Context, db *database, cutoff int64) (err error) {
	for range 10 {
		if _, err = db.ExecContext(ctx, "UPDATE fencepost_floor SET number = ? WHERE number < ?", cutoff, cutoff); !lockTimedOut(err) {
			return err
		}
		time.Sleep(time.Second)
	}
	return fmt.Errorf("the floor is busy: claims wait for older writers, try again: %w", err)
}

// deleteEach deletes the rows that find returns by their keys, each in a transaction of its
// own: one for several would lock the rows and the gaps into which claims insert. It keeps a
// row that another transaction has locked, and skips it by the OFFSET of find.
func deleteEach(ctx context.Context, db *database, remove, find string, args ...any) (deleted int, err error) {
	for busy := 0; ; {
		var keys [][2]any
		err := db.each(ctx, find, append(args[:len(args):len(args)], busy), func(row *sql.Rows) error {
			keys = append(keys, [2]any{})
			key := &keys[len(keys)-1]
			return row.Scan(&key[0], &key[1])
		})
		if err != nil || len(keys) == 0 {
			return deleted, err
		}
		for _, key := range keys {
			switch _, err := db.ExecContext(ctx, remove, key[:]...); {
			case lockTimedOut(err):
				busy++
			case err != nil:
				return deleted, err
			default:
				deleted++
			}
		}
	}
}

// resetMySQL does what reset does. It locks the floor before
// the mark, as a claim does: in the other order they could deadlock. It reads both, and the
// clock, after the wait. No token has the holder that it writes.
func resetMySQL(ctx context.Context, db *database, c *resetCmd) (fresh Number, err error) {
	if err := waitForLocks(ctx, db, c.Wait); err != nil {
		return 0, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	run := func(text string, args ...any) {
		if err == nil {
			_, err = tx.ExecContext(ctx, text, args...)
		}
	}
	run("SELECT number FROM fencepost_floor LOCK IN SHARE MODE")
	run("SELECT number FROM fencepost_marks WHERE resource = ? FOR UPDATE", c.Resource)
	var now *state
	if err == nil {
		now, err = db.show(ctx, c.Resource)
	}
	if err == nil {
		fresh, err = c.check(now)
	}
	run("UPDATE fencepost_marks SET number = ?, holder = CONCAT('reset/', LEFT(CURRENT_USER(), 37), '/', ?) WHERE resource = ?", int64(fresh), rand.Text(), c.Resource)
	if err == nil {
		err = tx.Commit()
	}
	return fresh, err
}
