package marks

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/engine"
)

// mysql takes the row locks that package stdsql takes: the fence is made of them.
type mysql struct{}

// statement writes the arguments into the text, as literals: {1} is the first one. The
// bytes of a hexadecimal literal do not depend on the connection's character set, and it
// needs no quoting.
func (mysql) statement(name string, args ...any) (string, []any) {
	var pairs []string
	for i, arg := range args {
		pairs = append(pairs, fmt.Sprintf("{%d}", i+1), literal(arg))
	}
	return strings.NewReplacer(pairs...).Replace(statementText("mysql/" + name)), nil
}

// statementText is the text of a file without the comment at its top.
func statementText(name string) string {
	text := file(name)
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

func literal(arg any) string {
	switch arg := arg.(type) {
	case string:
		return "x'" + hex.EncodeToString([]byte(arg)) + "'"
	case bool:
		return strings.ToUpper(strconv.FormatBool(arg))
	case int64:
		return strconv.FormatInt(arg, 10)
	case number:
		return arg.String()
	}
	panic(fmt.Sprintf("marks: no literal for %T", arg))
}

func (mysql) fences(ctx context.Context, conn *sql.Conn) error {
	variables, err := engine.AskMySQL(ctx, conn, engine.MySQLVariables...)
	if err != nil {
		return err
	}
	return engine.CheckMySQL(variables)
}

// sessions returns none: only locks that a session waits for are listed by every version.
func (mysql) sessions(context.Context, *database, string) ([]session, error) { return nil, nil }

const (
	batchSize  = 500
	floorTries = 10 // each waits for a second
)

// Error numbers: MySQL 8.0 Error Message Reference.
const (
	numberSyntax   = 1064
	numberNoTable  = 1146
	numberLockWait = 1205
)

func (d mysql) prune(ctx context.Context, db *database, cutoff number) (rows int, err error) {
	if err := d.setLockWait(ctx, db, time.Second); err != nil {
		return 0, err
	}
	if err := d.raiseFloor(ctx, db, cutoff); err != nil {
		return 0, err
	}
	for last := ""; ; {
		found, err := db.rows(ctx, "prune_old.sql", last, cutoff, int64(batchSize))
		names, err := collect(found, err, scanString)
		if err != nil || len(names) == 0 {
			return rows, err
		}
		deleted, err := d.deleteIdle(ctx, db, names, cutoff)
		rows += deleted
		if err != nil {
			return rows, err
		}
		last = names[len(names)-1]
	}
}

func scanString(row *sql.Rows) (text string, err error) { return text, row.Scan(&text) }

// raiseFloor gives up after a number of tries. Claims come after it in the queue for the
// floor's row, so one long wait would hold up all of them:
//
//  1. a claim shares the row, and waits for older writers of its resource
//  2. this statement waits for the claim
//  3. claims of other resources wait for this statement
func (d mysql) raiseFloor(ctx context.Context, db *database, cutoff number) (err error) {
	for range floorTries {
		err = d.inTx(ctx, db, func() error { return db.exec(ctx, "prune_floor.sql", cutoff) })
		if engine.MySQLNumber(err) != numberLockWait {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("the floor is busy: claims wait for older writers, try again: %w", err)
}

// deleteIdle deletes the marks of resources, except those that another transaction has
// locked.
func (d mysql) deleteIdle(ctx context.Context, db *database, resources []string, cutoff number) (deleted int, err error) {
	err = d.inTx(ctx, db, func() error {
		rows, err := db.QueryContext(ctx, d.listed("prune_lock.sql", resources, cutoff))
		idle, err := collect(rows, err, scanString)
		if err != nil || len(idle) == 0 {
			return err
		}
		deleted = len(idle)
		_, err = db.ExecContext(ctx, d.listed("prune_delete.sql", idle, cutoff))
		return err
	})
	if engine.MySQLNumber(err) == numberSyntax { // SKIP LOCKED needs MySQL 8.0.1 or MariaDB 10.6
		return d.deleteEach(ctx, db, resources, cutoff)
	}
	if err != nil {
		return 0, err
	}
	return deleted, nil
}

// deleteEach is deleteIdle for servers without SKIP LOCKED. For each locked mark it waits a
// second.
func (d mysql) deleteEach(ctx context.Context, db *database, resources []string, cutoff number) (deleted int, err error) {
	for _, resource := range resources {
		err := d.inTx(ctx, db, func() error {
			result, err := db.ExecContext(ctx, d.listed("prune_delete.sql", []string{resource}, cutoff))
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			deleted += int(n)
			return err
		})
		if err != nil && engine.MySQLNumber(err) != numberLockWait {
			return deleted, err
		}
	}
	return deleted, nil
}

// pruneUnits deletes units one by one: a DELETE with a LIMIT locks all rows that it scans,
// and the gaps into which new units are inserted.
func (d mysql) pruneUnits(ctx context.Context, db *database) (units int, err error) {
	for {
		found, err := db.rows(ctx, "prune_units_old.sql", int64(batchSize))
		batch, err := collect(found, err, func(row *sql.Rows) (u [2]string, err error) { return u, row.Scan(&u[0], &u[1]) })
		if err != nil || len(batch) == 0 {
			return units, err
		}
		if err := d.inTx(ctx, db, func() error {
			for _, u := range batch {
				if err := db.exec(ctx, "prune_unit.sql", u[0], u[1]); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return units, err
		}
		units += len(batch)
	}
}

// listed is statement for a file with a list of resources.
func (d mysql) listed(name string, resources []string, cutoff number) string {
	literals := make([]string, len(resources))
	for i, resource := range resources {
		literals[i] = literal(resource)
	}
	text, _ := d.statement(name, cutoff)
	return strings.ReplaceAll(text, "{resources}", strings.Join(literals, ", "))
}

// reset does what the function of that name does on PostgreSQL.
func (d mysql) reset(ctx context.Context, db *database, c *resetCmd) (fresh number, err error) {
	if err := d.setLockWait(ctx, db, c.Wait); err != nil {
		return 0, err
	}
	err = d.inTx(ctx, db, func() error {
		now := &resourceState{Resource: c.Resource, Mark: new(markJSON)}
		if err := db.row(ctx, "reset_floor.sql", nil, &now.Floor); err != nil {
			return err
		}
		switch err := db.row(ctx, "reset_mark.sql", []any{c.Resource}, &now.Mark.Number, &now.Mark.Holder); {
		case errors.Is(err, sql.ErrNoRows):
			now.Mark = nil
		case err != nil:
			return err
		}
		var account string
		if err := db.row(ctx, "reset_clock.sql", nil, &now.Clock, &account); err != nil {
			return err
		}
		if fresh, err = c.check(now); err != nil {
			return err
		}
		return db.exec(ctx, "reset.sql", c.Resource, fresh, resetHolder(account))
	})
	if engine.MySQLNumber(err) == numberLockWait {
		return 0, fmt.Errorf("marks: a writer is still admitted for %s, see SHOW ENGINE INNODB STATUS: %w", cli.Visible(c.Resource), err)
	}
	return fresh, err
}

// resetHolder is a holder that no token has: the account, and a random text. A holder has at
// most 200 bytes.
func resetHolder(account string) string {
	account = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, account)
	return "reset/" + strings.ToValidUTF8(account[:min(len(account), 150)], "") + "/" + rand.Text()
}

func (mysql) afterReset(*resetCmd, number) string {
	return "MySQL does not log the old mark: keep this output if you need it.\n"
}

const maxLockWait = 100_000_000 * time.Second // MariaDB's limit, which is lower than MySQL's

// setLockWait bounds the waits for locks, in whole seconds and not shorter than d, up to the
// server's limit.
func (mysql) setLockWait(ctx context.Context, db *database, d time.Duration) error {
	_, err := db.ExecContext(ctx, fmt.Sprintf("SET SESSION innodb_lock_wait_timeout = %d", (min(d, maxLockWait)+time.Second-1)/time.Second))
	return err
}

// inTx runs fn in a transaction of the session.
func (mysql) inTx(ctx context.Context, db *database, fn func() error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fn(); err != nil {
		return err
	}
	return tx.Commit()
}

func (mysql) explain(ctx context.Context, db *database, a access, err error) error {
	if engine.MySQLNumber(err) == numberNoTable {
		return fmt.Errorf("marks: the database lacks what the migrations make: run fencepost migrate up --mysql: %w", err)
	}
	onMarks, onFloor := "SELECT", "SELECT"
	switch a {
	case prunes:
		onMarks, onFloor = "SELECT, DELETE", "SELECT, UPDATE"
	case resets:
		onMarks = "SELECT, UPDATE"
	case reads:
	}
	rights := []engine.TableRights{{Table: "fencepost_marks", Rights: onMarks}, {Table: "fencepost_floor", Rights: onFloor}}
	if a == prunes {
		rights = append(rights, engine.TableRights{Table: "fencepost_units", Rights: "SELECT, DELETE"})
	}
	return connect.MissingMySQLGrant(ctx, err, db, rights...)
}
