package marks

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/cli"
)

type listCmd struct {
	Prefix  string   `env:"FENCEPOST_MARKS_LIST_PREFIX" help:"Only resources that begin with this text."`
	Limit   positive `default:"100" help:"List at most so many marks."`
	Highest bool     `xor:"order" help:"The highest number first, as that of a forged token. The server reads all marks for it."`
	Oldest  bool     `xor:"order" help:"The lowest number first, as prune deletes them. The server reads all marks for it."`
	JSON    bool     `name:"json" help:"Print one JSON object a line instead."`
}

// Help is printed by --help below the usage line.
func (listCmd) Help() string {
	return `Marks are listed by resource, unless a flag sets another order.

Examples:
  fencepost marks list --postgres postgres://operator@db/shop --prefix account/
  FENCEPOST_MYSQL_DSN='operator:secret@tcp(db:3306)/shop' fencepost marks list --oldest --limit 10`
}

// listRow is a line of JSON.
type listRow struct {
	Resource string    `json:"resource"`
	Number   number    `json:"number,string"`
	Holder   string    `json:"holder"`
	Time     time.Time `json:"time"`
	Age      float64   `json:"age_seconds"` // below 0 if the mark is above the server's clock
	clock    number
}

// pageSize is the number of marks in memory at a time. In the order of resources it is
// also the number that one statement reads: if the reader of a pipe stops reading, as
// less does, no snapshot of the database stays open.
const pageSize = 1000

// Run is called by kong.
func (c *listCmd) Run(std cli.Streams, m *Cmd) error {
	return m.withDatabase(reads, func(ctx context.Context, db *database) error {
		shown, paint := 0, cli.NewStyle(std.Out)
		err := c.pages(ctx, db, func(page []listRow) error {
			first := shown == 0
			shown += len(page)
			if c.JSON {
				return c.printJSON(std, page)
			}
			return cli.Print(std.Out, listPage(page, first, paint))
		})
		if err != nil || c.JSON {
			return err
		}
		return c.printEnd(ctx, std, db, shown)
	})
}

func (c *listCmd) printJSON(std cli.Streams, page []listRow) error {
	var text strings.Builder
	for _, l := range page {
		object, err := cli.JSONLine(l)
		if err != nil {
			return err
		}
		text.WriteString(object)
	}
	return cli.Print(std.Out, text.String())
}

// listPage returns a page as text, with the heading if it is the first page. Columns are
// aligned for each page. The colour codes are added to whole lines after that, because
// they would count as width.
func listPage(page []listRow, first bool, paint cli.Style) string {
	rows := [][]string{{"resource", "number", "holder", "time", "age"}}
	for _, l := range page {
		rows = append(rows, []string{cli.Visible(l.Resource), l.Number.String(), cli.Visible(l.Holder), l.Number.date(), l.Number.age(l.clock)})
	}
	lines := cli.Columns(rows)
	lines[0] = paint.Dim(lines[0])
	for i, l := range page {
		if l.Number > l.clock {
			lines[i+1] = paint.Yellow(lines[i+1])
		}
	}
	if !first {
		lines = lines[1:]
	}
	return strings.Join(lines, "\n") + "\n"
}

// printEnd prints the counts, after the marks.
func (c *listCmd) printEnd(ctx context.Context, std cli.Streams, db *database, shown int) error {
	all, paint := 0, cli.NewStyle(std.Out)
	if err := db.row(ctx, "count.sql", []any{c.Prefix}, &all); err != nil {
		return err
	}
	end := fmt.Sprintf("%d of %d marks", shown, all)
	if c.Prefix != "" {
		end += " that begin with " + cli.Visible(c.Prefix)
	}
	return cli.Print(std.Out, paint.Dim(end)+"\n")
}

// pages calls print with up to pageSize marks at a time, at least once.
func (c *listCmd) pages(ctx context.Context, db *database, print func(page []listRow) error) error {
	if c.Highest || c.Oldest {
		rows, err := db.rows(ctx, "list_number.sql", c.Prefix, int64(c.Limit), c.Oldest)
		if err != nil {
			return err
		}
		return inPages(rows, print)
	}
	from, left := c.Prefix, int64(c.Limit)
	for first := true; ; first = false {
		rows, err := db.rows(ctx, "list.sql", from, !first, min(left, pageSize))
		page, err := collect(rows, err, scanRow)
		if err != nil {
			return err
		}
		more := int64(len(page)) == min(left, pageSize)
		for i, l := range page {
			if !strings.HasPrefix(l.Resource, c.Prefix) { // resources are sorted byte by byte
				page, more = page[:i], false
				break
			}
		}
		left -= int64(len(page))
		if first || len(page) > 0 {
			if err := print(page); err != nil {
				return err
			}
		}
		if !more || left == 0 {
			return nil
		}
		from = page[len(page)-1].Resource
	}
}

// inPages prints the rows of one statement as they arrive.
func inPages(rows *sql.Rows, print func(page []listRow) error) error {
	defer rows.Close()
	page := make([]listRow, 0, pageSize)
	for first := true; ; first = false {
		page = page[:0]
		for len(page) < pageSize && rows.Next() {
			l, err := scanRow(rows)
			if err != nil {
				return err
			}
			page = append(page, l)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if len(page) > 0 || first {
			if err := print(page); err != nil {
				return err
			}
		}
		if len(page) < pageSize {
			return nil
		}
	}
}

func scanRow(row *sql.Rows) (l listRow, err error) {
	err = row.Scan(&l.Resource, &l.Number, &l.Holder, &l.clock)
	l.Time = l.Number.time()
	l.Age = (time.Duration(l.clock-l.Number) * unit).Seconds()
	return l, err
}
