package marks

import (
	"context"
	"database/sql"
	_ "embed" // the statement
	"fmt"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/token"
)

var reads = rights(nil, "SELECT", "SELECT")

// The primary key has the order of resources, byte by byte. No index has that of numbers.
const (
	listMarks  = `SELECT resource, number, holder, {clock} FROM {marks} WHERE resource LIKE $1 ESCAPE '!' ORDER BY {order} LIMIT $2`
	countMarks = `SELECT count(*) FROM {marks} WHERE resource LIKE $1 ESCAPE '!'`
	showMark   = `SELECT f.number, {clock}, m.number, m.holder FROM {floor} f LEFT JOIN {marks} m ON m.resource = $1`
)

// sessionsSQL lists the sessions of PostgreSQL that write or wait.
//
//go:embed sessions.sql
var sessionsSQL string

type listCmd struct {
	Prefix  string `env:"FENCEPOST_MARKS_LIST_PREFIX" help:"Only resources that begin with this text."`
	Limit   int64  `default:"100" help:"List at most so many marks. The table of them is in memory; lines of JSON are not."`
	Highest bool   `help:"The highest number first, as that of a forged token. The server reads all marks for it."`
	JSON    bool   `name:"json" help:"Print one JSON object a line instead."`
}

// Help is printed by --help below the usage line.
func (listCmd) Help() string {
	return `Examples:
  fencepost marks list --postgres postgres://operator@db/shop --prefix account/
  FENCEPOST_MYSQL_DSN='operator:secret@tcp(db:3306)/shop' fencepost marks list --highest --limit 10`
}

// mark is a mark in the JSON of list, show and reset.
type mark struct {
	Number Number    `json:"number,string"`
	Holder string    `json:"holder"`
	Time   time.Time `json:"time"`
}

// listRow is a line of JSON.
type listRow struct {
	Resource string `json:"resource"`
	mark
	Age float64 `json:"age_seconds"` // below 0 if the mark is above the server's clock
}

// Run is called by kong.
func (c *listCmd) Run(std cli.Streams, m *Cmd) error {
	if c.Limit < 1 {
		return fmt.Errorf("limit: %d: must be above 0", c.Limit)
	}
	order := "resource"
	if c.Highest {
		order = "number DESC, resource"
	}
	prefix := strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(c.Prefix) + "%"
	return m.withDatabase(reads, func(ctx context.Context, db *database) error {
		rows := [][]string{{"resource", "number", "holder", "time", "age"}}
		err := db.each(ctx, strings.Replace(listMarks, "{order}", order, 1), []any{prefix, c.Limit}, func(row *sql.Rows) error {
			var l listRow
			var clock Number
			if err := row.Scan(&l.Resource, &l.Number, &l.Holder, &clock); err != nil {
				return err
			}
			if c.JSON {
				l.Time, l.Age = l.Number.Time(), (time.Duration(clock-l.Number) * unit).Seconds()
				return cli.PrintResult(std.Out, true, l, "")
			}
			rows = append(rows, []string{cli.Visible(l.Resource), fmt.Sprint(l.Number), cli.Visible(l.Holder), l.Number.Date(), l.Number.Age(clock)})
			return nil
		})
		if err != nil || c.JSON {
			return err
		}
		all, begin := 0, ""
		if err := db.row(ctx, countMarks, []any{prefix}, &all); err != nil {
			return err
		}
		if c.Prefix != "" {
			begin = " that begin with " + cli.Visible(c.Prefix)
		}
		return cli.Print(std.Out, fmt.Sprintf("%s%d of %d marks%s\n", table(rows), len(rows)-1, all, begin))
	})
}

func table(rows [][]string) string { return strings.Join(cli.Columns(rows), "\n") + "\n" }

type showCmd struct {
	Resource string `arg:"" help:"The resource, by its whole name."`
	JSON     bool   `name:"json" help:"Print one JSON object instead."`
}

// Help is printed by --help below the usage line.
func (showCmd) Help() string {
	return `Exit status 1 if the resource has no mark: then tokens below the floor are stale.

Example:
  fencepost marks show account/42 --postgres postgres://operator@db/shop`
}

// state is the object of JSON.
type state struct {
	Resource string    `json:"resource"`
	Mark     *mark     `json:"mark"`
	Floor    Number    `json:"floor,string"`
	Clock    Number    `json:"clock,string"` // the server's
	Sessions []session `json:"sessions"`     // nil if the server does not list them
}

// session holds the lock of a resource, or waits for it. Role, application, state and since
// are empty if the command's role may not see them.
type session struct {
	PID         int        `json:"pid"`  // 0 for a prepared transaction
	Mode        string     `json:"mode"` // shared to write under the mark; exclusive to raise or prune it
	Granted     bool       `json:"granted"`
	Role        string     `json:"role"`
	Application string     `json:"application_name"`
	State       string     `json:"state"`
	Since       *time.Time `json:"since"` // its transaction's start
}

// Run is called by kong.
func (c *showCmd) Run(std cli.Streams, m *Cmd) error {
	if err := token.ValidateResource(c.Resource); err != nil {
		return err
	}
	return m.withDatabase(reads, func(ctx context.Context, db *database) error {
		s, err := db.show(ctx, c.Resource)
		if err == nil && db.schema != "" {
			s.Sessions = []session{}
			err = db.each(ctx, sessionsSQL, []any{c.Resource}, func(row *sql.Rows) error {
				var w session
				err := row.Scan(&w.PID, &w.Mode, &w.Granted, &w.Role, &w.Application, &w.State, &w.Since)
				if w.Since != nil {
					*w.Since = w.Since.UTC()
				}
				s.Sessions = append(s.Sessions, w)
				return err
			})
		}
		if err != nil {
			return err
		}
		if err := cli.PrintResult(std.Out, c.JSON, s, s.text()); err != nil || s.Mark != nil {
			return err
		}
		return fmt.Errorf("the resource has no mark: %w", cli.ErrNo) // it is printed already
	})
}

func (db *database) show(ctx context.Context, resource string) (*state, error) {
	s := &state{Resource: resource}
	var n *Number
	var holder *string
	err := db.row(ctx, showMark, []any{resource}, &s.Floor, &s.Clock, &n, &holder)
	if err == nil && n != nil {
		s.Mark = &mark{*n, *holder, n.Time()}
	}
	return s, err
}

func (s *state) text() string {
	rows, floor := [][]string{{"mark", "none: the floor applies"}}, "0, nothing was pruned yet"
	if m := s.Mark; m != nil {
		rows = [][]string{{"mark", fmt.Sprint(m.Number)}, {"holder", cli.Visible(m.Holder)}, {"time", m.Number.Date() + ", " + m.Number.Age(s.Clock)}}
		if m.Number > s.Clock {
			rows = append(rows, []string{"", "above the server's clock: if no clock is wrong, a forged token has raised it"})
		}
	}
	if s.Floor > 0 {
		floor = fmt.Sprintf("%d, %s, %s", s.Floor, s.Floor.Date(), s.Floor.Age(s.Clock))
	}
	text := cli.Visible(s.Resource) + "\n\n" + table(append(rows, []string{"floor", floor})) + "\n"
	switch {
	case s.Sessions == nil:
		return text + "  MySQL does not list the writers: see SHOW ENGINE INNODB STATUS.\n"
	case len(s.Sessions) == 0:
		return text + "  No session of this database writes under the mark or waits for it. Who waits for the lock: see fencepost locks show.\n"
	}
	rows = [][]string{{"pid", "does", "role", "application", "state", "since"}}
	for _, w := range s.Sessions {
		does, since := "waits", ""
		if w.Granted {
			does = map[string]string{"shared": "writes", "exclusive": "raises the mark"}[w.Mode]
		}
		if w.Since != nil {
			since = Span(max(0, s.Clock.Time().Sub(*w.Since)))
		}
		rows = append(rows, []string{fmt.Sprint(w.PID), does, cli.Visible(w.Role), cli.Visible(w.Application), w.State, since})
	}
	return text + table(rows)
}
