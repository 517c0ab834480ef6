package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fencepost/fencepost/token"
)

type marksShowCmd struct {
	Resource string `arg:"" help:"Its whole name."`
	JSON     bool   `name:"json" help:"Print one JSON object instead."`
}

// shown is a resource as JSON has it.
type shown struct {
	Resource string     `json:"resource"`
	Mark     *shownMark `json:"mark"`
	Floor    number     `json:"floor,string"`
	Clock    number     `json:"clock,string"` // the server's
	Sessions []session  `json:"sessions"`
}

type shownMark struct {
	Number number    `json:"number,string"`
	Holder string    `json:"holder"`
	Time   time.Time `json:"time"`
}

// Help is what --help says besides the flags.
func (marksShowCmd) Help() string {
	return "Exit status 1 where the resource has no mark, and the floor judges."
}

// Run is called by kong.
func (c *marksShowCmd) Run(std streams, m *marksCmd) error {
	if err := token.CheckResource(c.Resource); err != nil {
		return err
	}
	return m.use("", func(ctx context.Context, db *marks) error {
		resource, err := db.show(ctx, c.Resource)
		if err != nil {
			return err
		}
		if resource.Sessions, err = db.sessions(ctx, c.Resource); err != nil {
			return err
		}
		text := resource.page(newStyle(std.out))
		if c.JSON {
			if text, err = line(resource); err != nil {
				return err
			}
		}
		if err := show(std.out, text); err != nil || resource.Mark != nil {
			return err
		}
		return errNoMark
	})
}

func (db *marks) show(ctx context.Context, resource string) (*shown, error) {
	s := &shown{Resource: resource}
	var mark *int64
	var holder *string
	if err := db.QueryRow(ctx, db.sql("marks_show.sql"), resource).Scan(&s.Floor, &s.Clock, &mark, &holder); err != nil {
		return nil, err
	}
	if mark != nil {
		n := number(*mark)
		s.Mark = &shownMark{Number: n, Holder: *holder, Time: n.time()}
	}
	return s, nil
}

func (s *shown) page(paint style) string {
	rows := [][]string{{"mark", "none: the floor judges"}}
	if s.Mark != nil {
		rows = [][]string{{"mark", s.Mark.Number.String()}, {"holder", visible(s.Mark.Holder)}, {"time", s.Mark.Number.when(s.Clock)}}
	}
	rows = append(rows, []string{"floor", s.floor()})
	lines := append([]string{paint.bold(visible(s.Resource)), ""}, columns(rows)...)
	if s.Mark != nil && s.Mark.Number > s.Clock {
		lines = append(lines, "", paint.yellow("The mark is above the server's clock: if no clock is wrong, a forged token has poisoned it."))
	}
	return strings.Join(append(lines, "", sessionTable(s.Sessions, paint)), "\n")
}

func (s *shown) floor() string {
	if s.Floor == 0 {
		return "0, nothing was pruned yet"
	}
	return fmt.Sprintf("%s, %s", s.Floor, s.Floor.when(s.Clock))
}

// when is the number's time, and how far that is from the clock.
func (n number) when(clock number) string {
	if n > clock {
		return fmt.Sprintf("%s, %s ahead", n.date(), span(time.Duration(n-clock)*unit))
	}
	return fmt.Sprintf("%s, %s ago", n.date(), span(time.Duration(clock-n)*unit))
}
