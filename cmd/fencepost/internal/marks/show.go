package marks

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/token"
)

type showCmd struct {
	Resource string `arg:"" help:"The resource, by its whole name."`
	JSON     bool   `name:"json" help:"Print one JSON object instead."`
}

// resourceState is the object of JSON.
type resourceState struct {
	Resource string    `json:"resource"`
	Mark     *markJSON `json:"mark"`
	Floor    number    `json:"floor,string"`
	Clock    number    `json:"clock,string"` // the server's
	Sessions []session `json:"sessions"`     // nil if the server does not list them
}

type markJSON struct {
	Number number    `json:"number,string"`
	Holder string    `json:"holder"`
	Time   time.Time `json:"time"`
}

// Help is printed by --help below the usage line.
func (showCmd) Help() string {
	return `Exit status 1 if the resource has no mark: then tokens below the floor are stale.

Example:
  fencepost marks show account/42 --postgres postgres://operator@db/shop`
}

// Run is called by kong.
func (c *showCmd) Run(std cli.Streams, m *Cmd) error {
	if err := token.ValidateResource(c.Resource); err != nil {
		return err
	}
	return m.withDatabase(reads, func(ctx context.Context, db *database) error {
		state, err := db.show(ctx, c.Resource)
		if err != nil {
			return err
		}
		if state.Sessions, err = db.sessions(ctx, db, c.Resource); err != nil {
			return err
		}
		if err := cli.PrintResult(std.Out, c.JSON, state, state.text(cli.NewStyle(std.Out))); err != nil || state.Mark != nil {
			return err
		}
		return errNoMark
	})
}

func (db *database) show(ctx context.Context, resource string) (*resourceState, error) {
	s := &resourceState{Resource: resource}
	var mark *int64
	var holder *string
	err := db.row(ctx, "show.sql", []any{resource}, &s.Floor, &s.Clock, &mark, &holder)
	if err != nil {
		return nil, noFloor(err)
	}
	if mark != nil {
		n := number(*mark)
		s.Mark = &markJSON{Number: n, Holder: *holder, Time: n.time()}
	}
	return s, nil
}

// noFloor replaces sql.ErrNoRows, which a statement returns if the floor's row is missing.
func noFloor(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return errors.New("marks: the floor has no row, so every token of a resource without a mark is refused: restore it from a backup")
	}
	return err
}

func (s *resourceState) text(paint cli.Style) string {
	rows := [][]string{{"mark", "none: the floor applies"}}
	if s.Mark != nil {
		rows = [][]string{{"mark", s.Mark.Number.String()}, {"holder", cli.Visible(s.Mark.Holder)}, {"time", s.Mark.Number.when(s.Clock)}}
	}
	rows = append(rows, []string{"floor", s.floor()})
	lines := append([]string{paint.Bold(cli.Visible(s.Resource)), ""}, cli.Columns(rows)...)
	if s.Mark != nil && s.Mark.Number > s.Clock {
		lines = append(lines, "", paint.Yellow("The mark is above the server's clock. If no clock is wrong, a forged token has raised it."))
	}
	return strings.Join(append(lines, "", sessionTable(s.Sessions, paint)), "\n")
}

func (s *resourceState) floor() string {
	if s.Floor == 0 {
		return "0, nothing was pruned yet"
	}
	return fmt.Sprintf("%s, %s", s.Floor, s.Floor.when(s.Clock))
}

// when returns the number's time, and its distance from the clock.
func (n number) when(clock number) string {
	if n > clock {
		return fmt.Sprintf("%s, %s ahead", n.date(), formatAge(time.Duration(n-clock)*unit))
	}
	return fmt.Sprintf("%s, %s ago", n.date(), formatAge(time.Duration(clock-n)*unit))
}

// session holds the lock of a resource, or waits for it. Role, application, state and
// since are empty if the command's role may not see them.
type session struct {
	PID         int        `json:"pid"`
	Mode        string     `json:"mode"` // shared to write under the mark; exclusive to raise or prune it
	Granted     bool       `json:"granted"`
	Role        string     `json:"role"`
	Application string     `json:"application_name"`
	State       string     `json:"state"`
	Since       *time.Time `json:"since"` // its transaction's start
	seconds     *float64
}

// activity returns what the session does, by its lock.
func (s session) activity() string {
	switch {
	case !s.Granted:
		return "waits"
	case s.Mode == "shared":
		return "writes"
	}
	return "raises the mark"
}

func sessionTable(sessions []session, paint cli.Style) string {
	switch {
	case sessions == nil:
		return "  MySQL does not list the writers: see SHOW ENGINE INNODB STATUS.\n"
	case len(sessions) == 0:
		return "  No writer is admitted, and none waits.\n"
	}
	rows := [][]string{{"pid", "does", "role", "application", "state", "since"}}
	for _, s := range sessions {
		since := ""
		if s.seconds != nil {
			since = formatAge(time.Duration(*s.seconds * float64(time.Second)))
		}
		rows = append(rows, []string{fmt.Sprint(s.PID), s.activity(), cli.Visible(s.Role), cli.Visible(s.Application), s.State, since})
	}
	lines := cli.Columns(rows)
	lines[0] = paint.Dim(lines[0])
	return strings.Join(lines, "\n") + "\n"
}
