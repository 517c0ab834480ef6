package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

type marksListCmd struct {
	Prefix string `help:"Only resources that begin with this."`
	Limit  above0 `default:"100" help:"List at most so many (${default})."`
	Oldest bool   `help:"The lowest number first: what prune would take."`
	JSON   bool   `name:"json" help:"Print one JSON object a line instead."`
}

// listed is a mark as JSON has it.
type listed struct {
	Resource string    `json:"resource"`
	Number   number    `json:"number,string"`
	Holder   string    `json:"holder"`
	Time     time.Time `json:"time"`
	Age      float64   `json:"age_seconds"` // below 0: above the server's clock
	clock    number
	all      int
}

// Run is called by kong.
func (c *marksListCmd) Run(std streams, m *marksCmd) error {
	return m.use("", func(ctx context.Context, db *marks) error {
		list, err := db.list(ctx, c.Prefix, int64(c.Limit), c.Oldest)
		if err != nil {
			return err
		}
		if !c.JSON {
			return show(std.out, c.page(list, newStyle(std.out)))
		}
		var text strings.Builder
		for _, l := range list {
			object, err := line(l)
			if err != nil {
				return err
			}
			text.WriteString(object)
		}
		return show(std.out, text.String())
	})
}

func (db *marks) list(ctx context.Context, prefix string, limit int64, oldest bool) ([]listed, error) {
	// CollectRows returns its error.
	rows, _ := db.Query(ctx, db.sql("marks_list.sql"), prefix, limit, oldest)
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (listed, error) {
		var l listed
		err := row.Scan(&l.Resource, &l.Number, &l.Holder, &l.clock, &l.all)
		l.Time = l.Number.time()
		l.Age = (time.Duration(l.clock-l.Number) * unit).Seconds()
		return l, err
	})
}

// page paints whole lines, so that the columns are measured without the codes.
func (c *marksListCmd) page(list []listed, s style) string {
	rows := [][]string{{"resource", "number", "holder", "time", "age"}}
	all := 0
	for _, l := range list {
		rows = append(rows, []string{visible(l.Resource), l.Number.String(), visible(l.Holder), l.Number.date(), l.Number.age(l.clock)})
		all = l.all
	}
	lines := columns(rows)
	lines[0] = s.dim(lines[0])
	for i, l := range list {
		if l.Number > l.clock {
			lines[i+1] = s.yellow(lines[i+1])
		}
	}
	end := fmt.Sprintf("%d of %d marks", len(list), all)
	if c.Prefix != "" {
		end += " that begin with " + visible(c.Prefix)
	}
	return strings.Join(lines, "\n") + "\n" + s.dim(end) + "\n"
}
