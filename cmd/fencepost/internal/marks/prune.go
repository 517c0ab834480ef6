package marks

import (
	"context"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/internal/cli"
)

type pruneCmd struct {
	OlderThan time.Duration `required:"" placeholder:"DURATION" help:"Delete marks whose tokens were issued longer ago than this, as 30d."`
	Young     bool          `name:"dangerously-young" help:"Allow less than 24h."`
	DryRun    bool          `help:"Print what would be deleted, and change nothing."`
	JSON      bool          `name:"json" help:"Print one JSON object instead."`
}

// Help is printed by --help below the usage line.
func (pruneCmd) Help() string {
	return `Raises the floor to the cutoff, and then deletes marks below it in short transactions. Choose a duration longer than your longest hold: ` +
		`a token older than the cutoff is refused from then on if its resource has no mark. That includes the token of a lease that is ` +
		`still valid and has not claimed or written yet. The floor never falls.

Marks of resources that a transaction writes to at that moment are kept. On PostgreSQL so are the marks of leases that are valid in the same ` +
		`schema, and records of free leases are deleted. The database cannot see other locks, such as leases in Redis or an advisory lock ` +
		`under which a token was minted; on MySQL it can see none.

Then it deletes the units of Once whose Retention has passed, in short transactions. A unit that is repeated after that is applied again.

Numbers must be times, as those of every issuer of Fencepost are: plain counters are below every cutoff.

Examples:
  fencepost marks prune --postgres postgres://janitor@db/shop --older-than 30d --dry-run
  FENCEPOST_MYSQL_DSN='janitor:secret@tcp(db:3306)/shop' fencepost marks prune --older-than 30d`
}

// minAge is far above the age of a usual lease.
const minAge = 24 * time.Hour

// Run is called by kong.
func (c *pruneCmd) Run(std cli.Streams, m *Cmd) error {
	switch {
	case c.OlderThan <= 0:
		return fmt.Errorf("older-than: %s: must be above 0, or new tokens would be refused", c.OlderThan)
	case c.OlderThan < minAge && !c.Young:
		return fmt.Errorf("older-than: %s: a lease that is older, and has not claimed or written yet, would be refused; less than 24h needs --dangerously-young", c.OlderThan)
	}
	a := prunes
	if c.DryRun {
		a = reads
	}
	return m.withDatabase(a, func(ctx context.Context, db *database) error {
		p, err := db.prunable(ctx, c.OlderThan)
		if err != nil {
			return err
		}
		p.DryRun = c.DryRun
		if !c.DryRun {
			if err = db.pruneTo(ctx, p); err != nil {
				return err
			}
		}
		return cli.PrintResult(std.Out, c.JSON, p, p.text())
	})
}

// pruneResult has the counts before and after a prune, for JSON and text.
type pruneResult struct {
	DryRun bool      `json:"dry_run"`
	Marks  int       `json:"marks"`        // before the prune
	Old    int       `json:"old"`          // the marks below the cutoff
	Pruned int       `json:"pruned"`       // the old marks that are deleted
	Free   int       `json:"free"`         // the records of free leases that are deleted
	Units  int       `json:"units"`        // the units whose time had passed that are deleted
	Floor  number    `json:"floor,string"` // after the prune, also in a dry run
	Time   time.Time `json:"floor_time"`
	cutoff number
}

func (db *database) prunable(ctx context.Context, olderThan time.Duration) (*pruneResult, error) {
	p := &pruneResult{}
	err := db.row(ctx, "prune.sql", []any{int64(olderThan / unit)}, &p.cutoff, &p.Floor, &p.Old, &p.Marks)
	p.Floor = max(p.cutoff, p.Floor)
	p.Time = p.Floor.time()
	return p, noFloor(err)
}

func (p *pruneResult) text() string {
	if p.DryRun {
		return fmt.Sprintf("%d of %d marks would be deleted, and the floor would be %s (%s).\n", p.Old, p.Marks, p.Floor, p.Floor.date())
	}
	text := fmt.Sprintf("%d of %d marks are deleted, and the floor is %s (%s).\n", p.Pruned, p.Marks, p.Floor, p.Floor.date())
	if p.Free > 0 {
		text += fmt.Sprintf("%d records of free leases are deleted.\n", p.Free)
	}
	if p.Units > 0 {
		text += fmt.Sprintf("%d units of Once whose time has passed are deleted.\n", p.Units)
	}
	if left := p.Old - p.Pruned; left > 0 {
		text += fmt.Sprintf("%d old marks are kept: their resources were busy, or their leases are valid.\n", left)
	}
	return text
}

// pruneTo prunes marks and then units, and counts as deleted the old marks that do not exist or are not old
// after that.
func (db *database) pruneTo(ctx context.Context, p *pruneResult) error {
	rows, err := db.prune(ctx, db, p.cutoff)
	if err != nil {
		return fmt.Errorf("marks: stopped after %d deleted rows: %w", rows, err)
	}
	old := 0
	if err := db.row(ctx, "prune_left.sql", []any{int64(p.cutoff)}, &old); err != nil {
		return fmt.Errorf("marks: %d rows are deleted: %w", rows, err)
	}
	p.Pruned = p.Old - old
	p.Free = max(0, rows-p.Pruned)
	if p.Units, err = db.pruneUnits(ctx, db); err != nil {
		return fmt.Errorf("marks: %d marks and %d units are deleted: %w", p.Pruned, p.Units, err)
	}
	return nil
}
