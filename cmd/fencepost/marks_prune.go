package main

import (
	"context"
	"fmt"
	"time"
)

type marksPruneCmd struct {
	OlderThan time.Duration `required:"" placeholder:"DURATION" help:"Delete marks whose number stands for a time so long ago, as 720h."`
	Young     bool          `name:"dangerously-young" help:"Allow less than 24h."`
	DryRun    bool          `help:"Only say what would go."`
	JSON      bool          `name:"json" help:"Print one JSON object instead."`
}

// Help is what --help says besides the flags.
func (marksPruneCmd) Help() string {
	return `Every token older than that is refused from then on where there is no mark any more, or never was one: also a lease that ` +
		`lives and that has not claimed or written yet. Take a time before the oldest lease that still lives. ` +
		`Marks of resources that are busy stay, and those whose lease in the same schema lives. ` +
		`Numbers must be times, as those of every issuer of Fencepost are: counters of your own are all older.`
}

// leases that live longer are renewed by people who know it.
const young = 24 * time.Hour

// Run is called by kong.
func (c *marksPruneCmd) Run(std streams, m *marksCmd) error {
	switch {
	case c.OlderThan <= 0:
		return fmt.Errorf("older-than: %s: must be above 0, or new tokens are refused", c.OlderThan)
	case c.OlderThan < young && !c.Young:
		return fmt.Errorf("older-than: %s: a lease that is older, and has not claimed or written yet, would be refused; less than 24h needs --dangerously-young", c.OlderThan)
	}
	calls := "prune(bigint, integer)"
	if c.DryRun {
		calls = ""
	}
	return m.use(calls, func(ctx context.Context, db *marks) error {
		p, err := db.prunable(ctx, c.OlderThan)
		if err != nil {
			return err
		}
		p.DryRun = c.DryRun
		if !c.DryRun {
			if p.Pruned, err = db.prune(ctx, p.cutoff); err != nil {
				return fmt.Errorf("%d marks are pruned, others not: %w", p.Pruned, err)
			}
		}
		text := p.page()
		if c.JSON {
			if text, err = line(p); err != nil {
				return err
			}
		}
		return show(std.out, text)
	})
}

// pruning is what there was to prune, and what went, as JSON has it.
type pruning struct {
	DryRun bool      `json:"dry_run"`
	Marks  int       `json:"marks"`        // there were
	Old    int       `json:"old"`          // of them, below the cutoff
	Pruned int       `json:"pruned"`       // of the old ones
	Floor  number    `json:"floor,string"` // now, or after a run that is not dry
	Time   time.Time `json:"floor_time"`
	cutoff number
}

func (db *marks) prunable(ctx context.Context, olderThan time.Duration) (*pruning, error) {
	p := &pruning{}
	err := db.QueryRow(ctx, db.sql("marks_prune.sql"), int64(olderThan/unit)).Scan(&p.cutoff, &p.Floor, &p.Old, &p.Marks)
	p.Floor = max(p.cutoff, p.Floor)
	p.Time = p.Floor.time()
	return p, err
}

func (p *pruning) page() string {
	if p.DryRun {
		return fmt.Sprintf("%d of %d marks would go, and the floor be %s (%s).\n", p.Old, p.Marks, p.Floor, p.Floor.date())
	}
	text := fmt.Sprintf("%d of %d marks are pruned, and the floor is %s (%s).\n", p.Pruned, p.Marks, p.Floor, p.Floor.date())
	if left := p.Old - p.Pruned; left > 0 {
		text += fmt.Sprintf("%d that are as old stay: their resources were busy, or their leases live.\n", left)
	}
	return text
}

// prune deletes in small transactions, so that no writer waits for long. gone is
// right where there is an error, too, but for a batch whose answer was lost.
func (db *marks) prune(ctx context.Context, cutoff number) (gone int, err error) {
	for {
		var batch int
		if err := db.QueryRow(ctx, db.sql("marks_prune_batch.sql"), cutoff).Scan(&batch); err != nil || batch == 0 {
			return gone, err
		}
		gone += batch
	}
}
