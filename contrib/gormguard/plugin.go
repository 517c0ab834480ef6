package gormguard

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"

	"gorm.io/gorm"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// Plugin admits the tokens of [Fenced] models in the transactions in which GORM creates,
// updates and deletes them. Guard is required. Install it after other plugins:
//
//	db.Use(&gormguard.Plugin{Guard: guard})
//
// The package documentation lists what is fenced and what is refused. If
// Guard.DangerouslyReportOnly is set, the Plugin refuses nothing: a refusal goes to
// Guard.Hooks.Reported, or to [slog.Default] if that is nil.
type Plugin struct {
	// Guard admits the tokens. Its DB is not used. It must not be nil.
	Guard *stdsql.Guard
}

// Fenced is a model that names its resource. Resource is called on a pointer to the row,
// more than once for each write. The name must depend only on the primary key, or on
// columns that never change.
type Fenced interface{ Resource() string }

// FencedAll is a model that names several resources, for example those of the fenced
// rows that its hooks write. A model that is also [Fenced] has those of both.
type FencedAll interface{ Resources() []string }

// ErrCannotFence is returned if the Plugin cannot confine a write to rows whose names
// were admitted. Nothing was applied. The text has the reason.
var ErrCannotFence = errors.New("gormguard: write refused, nothing applied")

var errNoGuard = errors.New("gormguard: Plugin has no Guard")

// verb is a kind of statement.
type verb int

const (
	creating verb = iota
	updating
	deleting
)

var _ gorm.Plugin = (*Plugin)(nil)

// Name implements [gorm.Plugin].
func (p *Plugin) Name() string { return "fencepost" }

// Initialize implements [gorm.Plugin]. It returns an error if Guard is nil.
func (p *Plugin) Initialize(db *gorm.DB) error {
	if p.Guard == nil {
		return errNoGuard
	}
	create, update, remove := db.Callback().Create(), db.Callback().Update(), db.Callback().Delete()
	const end = "gorm:commit_or_rollback_transaction"
	return errors.Join(
		create.Before("gorm:before_create").Register("fencepost:admit", p.admit(creating)),
		create.Before("gorm:create").Register("fencepost:check", p.check(creating)),
		create.Before("gorm:save_after_associations").Register("fencepost:verify", p.verify),
		create.Before(end).Register("fencepost:keep", keep),
		create.After(end).Register("fencepost:outcome", outcome),

		update.Before("gorm:before_update").Register("fencepost:admit", p.admit(updating)),
		update.Before("gorm:update").Register("fencepost:check", p.check(updating)),
		update.Before("gorm:save_after_associations").Register("fencepost:verify", p.verify),
		update.Before(end).Register("fencepost:keep", keep),
		update.After(end).Register("fencepost:outcome", outcome),

		remove.Before("gorm:before_delete").Register("fencepost:admit", p.admit(deleting)),
		remove.Before("gorm:delete").Register("fencepost:check", p.check(deleting)),
		remove.Before(end).Register("fencepost:keep", keep),
		remove.After(end).Register("fencepost:outcome", outcome),
	)
}

// admittedKey and keptKey are the keys of values that the callbacks of one statement
// share. They include the statement, since GORM copies the settings to the statements of
// associations.
type (
	admittedKey struct{ of *gorm.Statement }
	keptKey     struct{ of *gorm.Statement }
)

// admit runs before hooks and associations. It admits all resources of the statement in
// one Join, and so in bytewise order.
func (p *Plugin) admit(v verb) func(db *gorm.DB) {
	return func(db *gorm.DB) {
		s := db.Statement
		s.Settings.Delete(admittedKey{s})
		s.Settings.Delete(keptKey{s})
		if db.Error != nil || db.DryRun {
			return
		}
		names, err := namesOf(s, v)
		if err == nil && len(names) > 0 {
			err = inTransaction(s)
		}
		switch {
		case err != nil:
			p.refuse(db, err)
		case len(names) > 0:
			s.Settings.Store(admittedKey{s}, names)
			if err := p.Guard.JoinAll(s.Context, Tx(db), names); err != nil {
				_ = db.AddError(fmt.Errorf("gormguard: %s: %w", s.Table, err))
			}
		}
	}
}

// check runs immediately before the statement, after hooks that may have changed the row
// or the statement. It confines the statement to rows that were admitted. In report-only
// mode it leaves the statement unchanged.
func (p *Plugin) check(v verb) func(db *gorm.DB) {
	return func(db *gorm.DB) {
		s := db.Statement
		if db.Error != nil || db.DryRun || !isFenced(s.Schema) {
			return
		}
		if _, admitted := s.Settings.Load(admittedKey{s}); !admitted && p.Guard.DangerouslyReportOnly {
			return // refused before, and reported
		}
		given := maps.Clone(s.Clauses)
		rows, err := rowsOf(s)
		if err == nil {
			err = unchanged(s, rows)
		}
		if err == nil {
			err = confine(s, v)
		}
		if err != nil {
			p.refuse(db, err)
		}
		if p.Guard.DangerouslyReportOnly {
			s.Clauses = given
		}
	}
}

// verify runs immediately after the statement: the database may have generated the key,
// and GORM has assigned the written values to the model.
func (p *Plugin) verify(db *gorm.DB) {
	s := db.Statement
	if db.Error != nil || db.DryRun || !isFenced(s.Schema) || p.Guard.DangerouslyReportOnly {
		return
	}
	rows, err := rowsOf(s)
	if errors.Is(err, errNoRow) {
		return // RETURNING returned no rows
	}
	if err := unchanged(s, rows); err != nil {
		p.refuse(db, err)
		_ = p.Guard.JoinAll(s.Context, Tx(db), nil) // without names Join fails, so the transaction commits nothing, even if GORM did not begin it
	}
}

// refuse adds err to db, or reports it in report-only mode.
func (p *Plugin) refuse(db *gorm.DB, err error) {
	ctx := db.Statement.Context
	err = fmt.Errorf("%w: %s: %w", ErrCannotFence, db.Statement.Table, err)
	switch {
	case !p.Guard.DangerouslyReportOnly:
		_ = db.AddError(err)
	case p.Guard.Hooks.Reported != nil:
		p.Guard.Hooks.Reported(ctx, err)
	default:
		slog.WarnContext(ctx, "gormguard: report-only, would have refused", "error", err)
	}
}

// unchanged returns an error if the rows have names that were not admitted.
func unchanged(s *gorm.Statement, rows []reflect.Value) error {
	admitted, _ := s.Settings.Load(admittedKey{s})
	names, _ := admitted.([]string)
	for _, row := range rows {
		for _, name := range resources(row) {
			if !slices.Contains(names, name) {
				return fmt.Errorf("the row is now %q, which was not admitted: set what its name depends on before the write", name)
			}
		}
	}
	return nil
}

// keep saves the error before the ROLLBACK. If Join has rolled back, GORM adds the error
// of its own ROLLBACK in a way that hides the first from errors.Is.
func keep(db *gorm.DB) {
	if db.Error != nil {
		db.Statement.Settings.Store(keptKey{db.Statement}, db.Error)
	}
}

// outcome restores the error that keep saved. If there was none, an error is COMMIT's.
func outcome(db *gorm.DB) {
	s := db.Statement
	_, fenced := s.Settings.Load(admittedKey{s})
	if kept, found := s.Settings.Load(keptKey{s}); found {
		db.Error, _ = kept.(error)
	} else if db.Error != nil && fenced {
		db.Error = fmt.Errorf("%w: gormguard: commit: %w", guard.ErrUnknown, db.Error)
	}
	s.Settings.Delete(admittedKey{s})
	s.Settings.Delete(keptKey{s})
}
