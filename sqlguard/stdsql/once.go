package stdsql

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/internal/pgadmit"
	"github.com/fencepost/fencepost/internal/writectx"
)

// Once applies a unit of work once, however often it is repeated: after any error, by any
// holder of resource, in any process. fn writes in a transaction that also records the
// unit under resource and its Key, with fn's result. If the unit is recorded, Once returns
// the first result, and fn does not run. A repeat that comes while the unit is being
// applied waits for it.
//
//   - A successor that repeats the unit gets the first result.
//   - A stale holder whose unit was applied gets its result, and otherwise the refusal.
//   - After [guard.ErrUnknown] the caller repeats Once: the first commit is found, or did
//     not happen.
//
// Once is [Guard.Update] in all other ways: the admission precedes every read of fn, an
// error of fn rolls back and is returned, and is not recorded, and the errors are the
// same. A unit takes one statement more than an Update, and two if its result is not empty
// or on PostgreSQL. An empty result is returned as nil.
//
// Once also returns
//
//   - [guard.ErrKeyReused] if the unit was applied with another Fingerprint;
//   - a [*token.InvalidError] if the Key is not valid;
//   - [guard.ErrUnknown] if the unit is there, and its transaction could not be waited
//     for: on PostgreSQL a repeat writes to the log and waits for the disk and the
//     synchronous standbys, whatever the session's synchronous_commit. MySQL does not wait
//     for replicas;
//   - an error if the result is longer than [guard.MaxResult];
//   - an error that is no refusal if the token was refused, and the database could not be
//     asked whether the unit was applied before. Nothing was applied; repeat Once.
//
// A unit is recorded for [Guard.Retention] at least. After that `fencepost marks prune`
// deletes it (SQLite: the DELETE in 00002_once.sql of package migrations), and a repeat is
// applied again. What fn does outside of the transaction is not covered: an e-mail is sent
// again if fn runs again. On MySQL the account needs SELECT, INSERT and UPDATE on
// fencepost_units.
func (g *Guard) Once(ctx context.Context, resource string, named guard.Unit, fn func(tx *sql.Tx) ([]byte, error)) ([]byte, error) {
	u := &unit{Unit: named, resource: resource}
	var err error
	if u.keep, err = guard.RetentionOr(g.Retention); err == nil {
		err = named.Validate()
	}
	if err != nil {
		return nil, err
	}
	c, err := g.newCall(ctx, writing)
	if err != nil {
		return nil, err
	}
	if c.toks, err = c.tokens(ctx, []string{resource}); err != nil {
		return nil, err
	}
	noteTried(ctx, u)
	var result []byte
	c.quiet = true
	err = c.update(ctx, func(tx *sql.Tx) (err error) {
		result, err = u.apply(ctx, c, tx, fn)
		return err
	})
	switch {
	case errors.Is(err, errFound), u.first != nil && !u.first.unconfirmed:
		return u.firstResult(ctx)
	case u.first != nil:
		err = fmt.Errorf("stdsql: unit %s of %s is there, and it is not known whether the disk and the standbys have it: %w", u.Key, u.resource, err)
		return nil, guard.WithCause(ctx, &unknownError{err})
	case err == nil:
		return result, nil
	case u.begun || !errors.As(err, new(*guard.StaleError)):
		return nil, guard.WithCause(ctx, err)
	}
	return c.afterRefusal(ctx, u, err)
}

// unit is a unit of Once, and what the database has of it.
type unit struct {
	guard.Unit
	resource string
	keep     time.Duration
	begun    bool   // the token was admitted
	first    *found // nil if the unit did not exist
}

// found is a unit that exists.
type found struct {
	same   bool // it has the same fingerprint
	result []byte
	// unconfirmed means that it may be neither on the disk nor on a standby before the
	// transaction that has found it is committed: see [pgadmit.ConfirmSQL].
	unconfirmed bool
}

var (
	errExists = errors.New("stdsql: the unit exists")
	errFound  = errors.New("stdsql: the unit was found, and is confirmed by the COMMIT")
)

// apply inserts the unit and runs fn. If the unit exists, it sets first and returns
// errExists, so that the transaction is rolled back, or errFound, so that it is committed.
func (u *unit) apply(ctx context.Context, d dialect, tx *sql.Tx, fn func(tx *sql.Tx) ([]byte, error)) (result []byte, err error) {
	u.begun = true
	inner, cancel := writectx.New(ctx)
	defer cancel()
	if u.first, err = d.insertUnit(inner, tx, u); err != nil {
		return nil, fmt.Errorf("stdsql: insert the unit: %w", err)
	}
	switch {
	case u.first == nil:
	case u.first.unconfirmed:
		return nil, errFound
	default:
		return nil, errExists
	}
	result, err = fn(tx)
	if err == nil {
		err = guard.CheckResult(result)
	}
	switch {
	case err != nil:
		return nil, err
	case len(result) == 0:
		result = nil
	}
	return result, d.setResult(inner, tx, u, result)
}

// firstResult returns the result of a unit that exists, or [guard.ErrKeyReused].
func (u *unit) firstResult(ctx context.Context) ([]byte, error) {
	if !u.first.same {
		return nil, fmt.Errorf("stdsql: unit %s of %s: %w", u.Key, u.resource, guard.ErrKeyReused)
	}
	noteRepeated(ctx, u)
	return u.first.result, nil
}

// afterRefusal looks the unit of a refused token up. After the refusal no transaction of
// that token goes on: the newer token has waited for them. A lookup before it could miss a
// commit that is on its way.
func (c *call) afterRefusal(ctx context.Context, u *unit, refusal error) ([]byte, error) {
	inner, cancel := writectx.New(ctx)
	defer cancel()
	var err error
	if u.first, err = c.findUnit(untraced(inner), c.DB, u); err != nil {
		err = fmt.Errorf("stdsql: whether unit %s of %s was applied before its token became stale: %w", u.Key, u.resource, err)
		return nil, guard.WithCause(ctx, c.withOutcome(err, 0))
	}
	if u.first == nil {
		return nil, guard.WithCause(ctx, c.Hooks.Outcome(ctx, refusal, false))
	}
	return u.firstResult(ctx)
}

// rowUnits keeps units in rows that the writer's account writes itself, on MySQL and SQLite:
// see 00002_once.sql in package migrations.
type rowUnits struct{ insert, findAgain string }

const (
	setUnitResult = "UPDATE fencepost_units SET result = ? WHERE resource = ? AND `key` = ?"
	findUnit      = "SELECT fingerprint, result FROM fencepost_units WHERE resource = ? AND `key` = ?"
)

var (
	// The INSERT waits for another transaction that has inserted the unit. If that has
	// committed, the INSERT fails, and MySQL undoes only the statement. The snapshot may be
	// older than that commit: the read has a lock, and returns the newest row.
	mysqlUnits = rowUnits{
		"INSERT INTO fencepost_units (resource, `key`, fingerprint, result, kept_until) VALUES (?, ?, ?, '', UNIX_TIMESTAMP() + ?)",
		findUnit + " LOCK IN SHARE MODE",
	}
	// SQLite's admission has taken the write lock.
	sqliteUnits = rowUnits{
		"INSERT INTO fencepost_units (resource, `key`, fingerprint, kept_until) VALUES (?, ?, ?, strftime('%s', 'now') + ?) ON CONFLICT DO NOTHING",
		findUnit,
	}
)

var errUnitDeleted = errors.New("stdsql: the unit was deleted in between")

func (r rowUnits) insertUnit(ctx context.Context, tx Tx, u *unit) (*found, error) {
	seconds := int64((u.keep + time.Second - 1) / time.Second)
	result, err := tx.ExecContext(ctx, r.insert, u.resource, u.Key, u.Sum(), seconds)
	if engine.MySQLNumber(err) != numberDuplicate {
		if err != nil {
			return nil, err
		}
		if rows, err := result.RowsAffected(); err != nil || rows == 1 {
			return nil, err
		}
	}
	first, err := scanUnit(tx.QueryRowContext(ctx, r.findAgain, u.resource, u.Key), u)
	if first == nil && err == nil {
		err = fmt.Errorf("%w: %w", guard.ErrRetryable, errUnitDeleted)
	}
	return first, err
}

func (rowUnits) setResult(ctx context.Context, tx Tx, u *unit, result []byte) error {
	if result == nil {
		return nil
	}
	_, err := tx.ExecContext(ctx, setUnitResult, result, u.resource, u.Key)
	return err
}

func (rowUnits) findUnit(ctx context.Context, from engine.Rower, u *unit) (*found, error) {
	return scanUnit(from.QueryRowContext(ctx, findUnit, u.resource, u.Key), u)
}

// scanUnit returns nil if there is no row.
func scanUnit(row *sql.Row, u *unit) (*found, error) {
	var sum, result []byte
	switch err := row.Scan(&sum, &result); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, err
	case len(result) == 0:
		result = nil
	}
	return &found{same: subtle.ConstantTimeCompare(sum, u.Sum()) == 1, result: result}, nil
}

func (d *postgres) insertUnit(ctx context.Context, tx Tx, u *unit) (*found, error) {
	first, err := scanReply(tx.QueryRowContext(ctx, d.statements.insertUnit, u.resource, u.Key, u.Sum(), pgadmit.Interval(u.keep)))
	if first != nil && first.same {
		first.unconfirmed = true
		_, err = tx.ExecContext(ctx, d.statements.confirm)
	}
	return first, err
}

// setResult also fails if fn has ended the unit's transaction and begun another one.
func (d *postgres) setResult(ctx context.Context, tx Tx, u *unit, result []byte) error {
	set, args := d.statements.setResult, []any{u.resource, u.Key, result}
	if result == nil {
		set, args = d.stillAdmitted(), nil
	}
	_, err := tx.ExecContext(ctx, set, args...)
	if state := pgadmit.SQLState(err); state == pgadmit.WrongTx || state == pgadmit.NoSetting {
		err = &unknownError{err}
	}
	return err
}

func (d *postgres) findUnit(ctx context.Context, from engine.Rower, u *unit) (*found, error) {
	var raised, emitted any // by the parts that make the commit wait
	return scanReply(from.QueryRowContext(ctx, d.statements.findUnit, u.resource, u.Key, u.Sum()), &raised, &emitted)
}

// scanReply returns nil if the reply, the row's first column, is NULL.
func scanReply(row *sql.Row, others ...any) (*found, error) {
	var reply sql.NullString
	if err := row.Scan(append([]any{&reply}, others...)...); err != nil || !reply.Valid {
		return nil, err
	}
	result, same, err := pgadmit.FirstResult(reply.String)
	if err != nil {
		return nil, fmt.Errorf("stdsql: the unit: %w", err)
	}
	return &found{same: same, result: result}, nil
}
