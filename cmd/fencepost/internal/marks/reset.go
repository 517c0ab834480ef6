package marks

import (
	"context"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/token"
)

type resetCmd struct {
	Resource string        `arg:"" help:"The resource, by its whole name."`
	Confirm  string        `placeholder:"RESOURCE" help:"Do not ask for the resource."`
	Number   *positive     `placeholder:"N" help:"The mark's new number instead of the server's clock, between the floor and a day after that clock. A mark that is not above the clock can be lowered only with it."`
	Wait     time.Duration `default:"10s" help:"How long to wait for transactions that are admitted, at least 1ms. On MySQL in whole seconds, rounded up."`
	JSON     bool          `name:"json" help:"Print one JSON object instead."`
}

// Help is printed by --help below the usage line.
func (resetCmd) Help() string {
	return `A forged token with a huge number raises a mark so far that no issuer ever reaches it, and every write is refused. Reset lowers the ` +
		`mark to the server's clock. The current holder must then acquire the resource again; the next acquisition is admitted. Find the ` +
		`source of the forged token first: the token is admitted again after the reset.

If an issuer's clock is ahead of the server's, use a --number above every number that it has issued. On PostgreSQL, rows with their own mark ` +
		`(rowguard.Table) keep it. Lower it too: UPDATE … SET last_token = fencepost.number_at(now()), last_holder = 'reset', ` +
		`after fencepost.bypass if the table is protected.

The command prints the mark and asks for the resource. Any other answer changes nothing.

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
		out := std.Out
		if c.JSON {
			out = std.Err
		}
		fmt.Fprintf(out, "The mark of %s is %s (%s), of %s.\n", cli.Visible(c.Resource), old.Mark.Number, old.Mark.Number.when(old.Clock), cli.Visible(old.Mark.Holder))
		if err := c.confirm(ctx, std); err != nil {
			return err
		}
		fresh, err := db.reset(ctx, db, c)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("It is %s (%s) now. %s", fresh, fresh.date(), db.afterReset(c, fresh))
		return cli.PrintResult(std.Out, c.JSON, resetResult{c.Resource, old.Mark, fresh, fresh.time()}, text)
	})
}

// resetResult is the object of JSON.
type resetResult struct {
	Resource string    `json:"resource"`
	Old      *markJSON `json:"old"`
	Number   number    `json:"number,string"`
	Time     time.Time `json:"time"`
}

// check returns the mark's new number, or why the mark is not reset. It is called before
// the user types the confirmation, and on MySQL again while the mark is locked.
func (c *resetCmd) check(now *resourceState) (fresh number, err error) {
	name := cli.Visible(c.Resource)
	if now.Mark == nil {
		return 0, fmt.Errorf("marks: %s has no mark: nothing to reset", name)
	}
	fresh = now.Clock
	if c.Number != nil {
		fresh = number(*c.Number)
	}
	switch {
	case c.Number == nil && now.Mark.Number <= now.Clock:
		return 0, fmt.Errorf("marks: the mark of %s is not above the server's clock, so issuers reach it: --number=N resets it all the same", name)
	case fresh > now.Clock+number(24*time.Hour/unit):
		return 0, fmt.Errorf("marks: number %s is %s, more than a day: every token up to it would be refused", fresh, fresh.when(now.Clock))
	case fresh < now.Floor:
		return 0, fmt.Errorf("marks: number %s is below the floor, %s, under which every token is stale", fresh, now.Floor)
	}
	return fresh, nil
}

// confirm prompts for the name of the resource, unless --confirm is set.
func (c *resetCmd) confirm(ctx context.Context, std cli.Streams) error {
	answer := c.Confirm
	if answer == "" {
		fmt.Fprint(std.Err, "Type the resource to lower its mark: ")
		var err error
		if answer, err = cli.ReadLineContext(ctx, std); err != nil {
			return err
		}
	}
	if answer != c.Resource {
		return fmt.Errorf("nothing was changed: %q is not the resource, %q", answer, c.Resource)
	}
	return nil
}
