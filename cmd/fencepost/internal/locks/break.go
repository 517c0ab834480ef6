package locks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/depose"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/httptoken"
)

type breakCmd struct {
	Name     string        `arg:"" help:"The lock, by its whole name."`
	Holder   string        `required:"" placeholder:"ID" help:"The holder to depose, as show prints it."`
	Number   int64         `placeholder:"N" help:"The number of its token, if a log or a mark has a higher one than show."`
	Guard    []string      `sep:"none" placeholder:"URL" help:"A server with marks through which the holder writes: the URL of a PostgreSQL or a Redis, or the DSN of a MySQL. Name all of them: repeatable."`
	Row      []string      `sep:"none" placeholder:"TABLE.KEY=VALUE" help:"A row with a mark of its own that the holder writes, as accounts.id=42, in the PostgreSQL of --guard. Repeatable."`
	Unfenced bool          `help:"Only free the lock. Until a successor has claimed, nothing refuses the writes of the deposed holder."`
	Reason   string        `placeholder:"TEXT" help:"Why. The mark's holder names this machine, the user, and the reason."`
	Wait     time.Duration `default:"5s" help:"How long open transactions of the holder may go on before their sessions are ended, at least 1ms."`
}

// Help is printed by --help below the usage line.
func (breakCmd) Help() string {
	return `If the lock has another holder now, nothing is changed, and the exit status is 1. Otherwise each guard admits a new number, as it does ` +
		`for a successor, and refuses the holder from then on. Only then the lease of exactly this holder is freed. If a guard does not answer, ` +
		`the lease stays: repeat the command. The holder's process goes on, and so does what it writes elsewhere. --schema is also that of the marks.

Examples:
  fencepost locks break job/report --postgres postgres://operator@db/shop --holder web-1:4711/report:7:c2f1 --guard postgres://operator@db/shop
  fencepost locks break account/42 --redis redis://locks:6379 --holder ID --guard postgres://operator@db/shop --row accounts.id=42 --reason hangs
  fencepost locks break job/report --redis redis://locks:6379 --holder ID --unfenced`
}

// Run is called by kong.
func (c *breakCmd) Run(std cli.Streams, m *Cmd) error {
	by, err := c.check(m.URL != "")
	if err != nil {
		return err
	}
	return m.withStore(func(ctx context.Context, store token.Inspector) error {
		if service, ok := store.(*httptoken.Issuer); ok {
			return c.ask(ctx, std, service, by)
		}
		guards, err := c.open(ctx, m.Schema)
		for _, g := range guards {
			defer g.close()
		}
		if err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
		b := depose.Break{Issuer: store.(depose.Issuer), Limit: c.Wait + 2*connect.Timeout, Resource: c.Name, Holder: c.Holder, By: by, Above: c.Number}
		for _, g := range guards {
			b.Guards = append(b.Guards, g.Guard)
		}
		_, done, now, err := b.Run(ctx)
		switch {
		case done == nil && err == nil:
			return another(std, now)
		case done == nil:
			return err
		}
		return c.print(std, by, done, err)
	})
}

func (c *breakCmd) print(std cli.Streams, by string, done [][]string, err error) error {
	return errors.Join(cli.Print(std.Out, table(c.Name, append([][]string{{"deposed", c.Holder}, {"by", by}}, done...))), err)
}

func another(std cli.Streams, now token.State) error {
	return show(std, false, now, "\nIt has another holder: no guard and no lease was changed.\n", cli.ErrNo)
}

// ask has a lock service break the lock: it has the guards.
func (c *breakCmd) ask(ctx context.Context, std cli.Streams, service *httptoken.Issuer, by string) error {
	number, report, err := service.Break(ctx, c.Name, c.Holder, by, c.Number, c.Unfenced)
	if errors.Is(err, token.ErrHeld) {
		now, err := service.Inspect(ctx, c.Name)
		if err != nil {
			return fmt.Errorf("nothing was changed: it has another holder: %w", err)
		}
		return another(std, now)
	} else if err != nil {
		return err
	}
	done := [][]string{{"number", fmt.Sprintf("%d: later holders have a higher one", number)}}
	for _, line := range report {
		subject, text, _ := strings.Cut(line, ": ")
		done = append(done, []string{subject, text})
	}
	return c.print(std, by, done, nil)
}

// check returns the holder of the new number, which names the breaker. A lock service adds the
// name of the credential.
func (c *breakCmd) check(service bool) (by string, err error) {
	switch {
	case service && len(c.Guard)+len(c.Row) > 0:
		return "", errors.New("--url excludes --guard and --row: the lock service has the guards")
	case c.Unfenced && len(c.Guard)+len(c.Row) > 0:
		return "", errors.New("--unfenced excludes --guard and --row")
	case !c.Unfenced && len(c.Guard) == 0 && !service:
		return "", errors.New("nothing was changed: without a guard that refuses them, late writes of the deposed holder are accepted until " +
			"a successor has claimed: name each --guard through which it writes, or give --unfenced")
	case c.Wait < time.Millisecond:
		return "", fmt.Errorf("wait: %s: must be at least 1ms", c.Wait)
	}
	host, _ := os.Hostname()
	by = fmt.Sprintf("%s:%d/break", host, os.Getpid())
	if u, err := user.Current(); err == nil {
		by += " by " + u.Username
	}
	by = strings.TrimSuffix(by+": "+c.Reason, ": ")
	_, err = token.New(c.Name, max(c.Number, 1), by)
	return by, err
}

// halfAKey matches account/4 and 2, which is the key of account/2.
var halfAKey = regexp.MustCompile(`\pL\n\pL|\pN\n\pN`)

// target is a store of marks: of a server, or of a row.
type target struct {
	depose.Guard
	close func()
}

// open connects to the guards, so that a wrong flag changes nothing.
func (c *breakCmd) open(ctx context.Context, schema string) (targets []target, err error) {
	ctx, cancel := connect.Within(ctx)
	defer cancel()
	var postgres []*sqlguard.Guard
	for _, url := range c.Guard {
		opened, err := connect.OpenGuard(ctx, url, schema, "fencepost locks break", c.Wait)
		if err != nil {
			return targets, connect.WithCause(ctx, err)
		}
		targets = append(targets, target{opened.Guard, opened.Close})
		if g, ok := opened.Store.(*sqlguard.Guard); ok {
			postgres = append(postgres, g)
		}
	}
	for _, row := range c.Row {
		column, value, _ := strings.Cut(row, "=")
		names := strings.Split(column, ".")
		last := len(names) - 1
		prefix, ends := strings.CutSuffix(c.Name, value)
		if len(postgres) != 1 || last == 0 || value == "" || !ends || halfAKey.MatchString(prefix+"\n"+value) {
			return targets, fmt.Errorf("--row: %q: want TABLE.KEY=VALUE with the lock's name behind the prefix of the table as VALUE, and one PostgreSQL in --guard", row)
		}
		targets = append(targets, target{depose.Guard{Name: row, Store: ownMark{&rowguard.Table{Guard: postgres[0], Name: names[:last], Key: names[last], Prefix: prefix}}}, func() {}})
	}
	return targets, nil
}

// ownMark is a row whose own mark alone decides about an UPDATE. A claim does not raise it if
// the role does not see the row, or if the marks table refuses the token.
type ownMark struct{ *rowguard.Table }

func (m ownMark) Admit(ctx context.Context, tok token.Token) error {
	stale, err := &guard.StaleError{Mark: guard.Mark{Number: tok.Number}}, m.Table.Admit(ctx, tok)
	if err != nil && !errors.As(err, &stale) {
		return err
	}
	raised := fmt.Sprintf("SELECT FROM %s WHERE %s::text = $1 AND last_token >= $2", m.Name.Sanitize(), pgx.Identifier{m.Key}.Sanitize())
	rows, failed := m.Guard.DB.(*pgxpool.Pool).Exec(ctx, raised, pgx.QueryExecModeExec, strings.TrimPrefix(tok.Resource, m.Prefix), stale.Mark.Number)
	if failed != nil || rows.RowsAffected() > 0 {
		return cmp.Or(failed, err)
	} else if err == nil {
		return errors.New("this role has found no such row: if there is none, leave out --row")
	}
	stale.Mark.Holder = "" // a higher number raises both marks
	return err
}
