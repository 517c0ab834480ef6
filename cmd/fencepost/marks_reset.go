package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/token"
)

type marksResetCmd struct {
	Resource string        `arg:"" help:"Its whole name."`
	Confirm  string        `placeholder:"RESOURCE" help:"The resource again, for scripts. Without it, it is asked for."`
	Number   *above0       `placeholder:"N" help:"The mark's new number, instead of the server's clock: between the floor and a day ahead of that clock. Lowers a mark that is not above the clock, too."`
	Wait     time.Duration `default:"10s" help:"How long to wait for those who are admitted, at least 1ms (${default})."`
	JSON     bool          `name:"json" help:"Print one JSON object instead."`
}

// Help is what --help says besides the flags.
func (marksResetCmd) Help() string {
	return `A forged token with a huge number leaves a mark that no issuer ever reaches, and every write is refused. Reset lowers the mark to ` +
		`the server's clock: whoever has the resource must acquire it again, and the next acquisition is admitted. Find the forger first, ` +
		`or it comes back. Where an issuer's clock is ahead of this server's, take a --number above every one it has given. ` +
		`Rows that carry a mark of their own (sqlguard.Table) keep it: lower theirs too, UPDATE … SET last_token = ` +
		`fencepost.number_at(now()), last_holder = 'reset', behind fencepost.bypass where the table is protected. ` +
		`Anything but the resource as the answer changes nothing.`
}

// Run is called by kong.
func (c *marksResetCmd) Run(std streams, m *marksCmd) error {
	if c.Wait < time.Millisecond {
		return fmt.Errorf("wait: %s: must be at least 1ms", c.Wait)
	}
	if err := token.CheckResource(c.Resource); err != nil {
		return err
	}
	return m.use("reset(text, bigint)", func(ctx context.Context, db *marks) error {
		old, err := db.show(ctx, c.Resource)
		if err != nil {
			return err
		}
		if err := c.possible(old); err != nil {
			return err
		}
		told := std.out
		if c.JSON {
			told = std.err
		}
		fmt.Fprintf(told, "The mark of %s is %s (%s), of %s.\n", visible(c.Resource), old.Mark.Number, old.Mark.Number.when(old.Clock), visible(old.Mark.Holder))
		if err := c.confirm(ctx, std); err != nil {
			return err
		}
		fresh, err := c.reset(ctx, db)
		if err != nil {
			return err
		}
		text := c.page(db, fresh)
		if c.JSON {
			if text, err = line(lowered{c.Resource, old.Mark, fresh, fresh.time()}); err != nil {
				return err
			}
		}
		return show(std.out, text)
	})
}

// lowered is a mark that was reset, as JSON has it.
type lowered struct {
	Resource string     `json:"resource"`
	Old      *shownMark `json:"old"`
	Number   number     `json:"number,string"`
	Time     time.Time  `json:"time"`
}

// possible says before anybody types what reset would refuse.
func (c *marksResetCmd) possible(old *shown) error {
	name := visible(c.Resource)
	if old.Mark == nil {
		return fmt.Errorf("marks: %s has no mark: nothing to reset", name)
	}
	if c.Number == nil {
		if old.Mark.Number <= old.Clock {
			return fmt.Errorf("marks: the mark of %s is not above the clock: it is not poisoned; --number resets it all the same", name)
		}
		return nil
	}
	n := number(*c.Number)
	switch {
	case n > old.Clock+number(24*time.Hour/unit):
		return fmt.Errorf("marks: number %s is %s, more than a day: every token up to it would be refused", n, n.when(old.Clock))
	case n < old.Floor:
		return fmt.Errorf("marks: number %s is below the floor, %s, under which every token is stale", n, old.Floor)
	}
	return nil
}

func (c *marksResetCmd) page(db *marks, fresh number) string {
	text, schema := fresh.String(), pgx.Identifier{db.schema}.Sanitize()
	if c.Number == nil {
		text = schema + ".number_at(now())"
	}
	return fmt.Sprintf("It is %s (%s) now. The old one is in the server's log.\n"+
		"If its row carries a mark of its own (sqlguard.Table), that is poisoned still: UPDATE … SET last_token = %s, last_holder = 'reset', "+
		"after SELECT %s.bypass(…) in the same transaction where the table is protected.\n", fresh, fresh.date(), text, schema)
}

// confirm asks for the resource where no flag has it.
func (c *marksResetCmd) confirm(ctx context.Context, std streams) error {
	answer := c.Confirm
	if answer == "" {
		fmt.Fprint(std.err, "Type the resource to lower it: ")
		var err error
		if answer, err = readLine(ctx, std); err != nil {
			return err
		}
	}
	if answer != c.Resource {
		return fmt.Errorf("nothing was changed: %q is not the resource, %q", answer, c.Resource)
	}
	return nil
}

// readLine is typedLine, but does not keep a signal waiting.
func readLine(ctx context.Context, std streams) (string, error) {
	lines := make(chan string, 1)
	go func() { lines <- typedLine(std) }()
	select {
	case text := <-lines:
		return text, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (c *marksResetCmd) reset(ctx context.Context, db *marks) (fresh number, err error) {
	if _, err := db.Exec(ctx, "SELECT set_config('lock_timeout', $1, false)", fmt.Sprint(c.Wait.Milliseconds())); err != nil {
		return 0, err
	}
	err = db.QueryRow(ctx, db.sql("marks_reset.sql"), c.Resource, (*int64)(c.Number)).Scan(&fresh)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "55P03" { // lock_not_available
		return 0, fmt.Errorf("marks: somebody is still admitted for %s, see fencepost marks show: %w", visible(c.Resource), err)
	}
	return fresh, err
}
