// Package locks is the command fencepost locks: it lists and shows the locks of an issuer,
// and breaks one. command.go has list and show, break.go has break. The locks are those of a
// server, or of a lock service over one.
package locks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/marks"
	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/httptoken"
)

// Cmd is the command fencepost locks, with the flags that its commands share.
type Cmd struct {
	connect.Locks
	URL       string `name:"url" server:"one" env:"FENCEPOST_URL" placeholder:"URL" help:"The lock service that has the lock, as https://locks.example.com: see fencepost serve."`
	Bearer    string `env:"FENCEPOST_BEARER" placeholder:"TOKEN" help:"The bearer token for --url. Every user of the machine can read a flag: set the variable instead."`
	KeyPrefix string `env:"FENCEPOST_PREFIX" placeholder:"PREFIX" help:"The prefix of the keys in Redis or etcd, by default fencepost."`

	List  listCmd  `cmd:"" help:"List the locks that are held or waited for."`
	Show  showCmd  `cmd:"" help:"Show a lock's holder and its waiters."`
	Break breakCmd `cmd:"" help:"Depose the holder of a lock: its late writes are refused, and the lock is free."`
}

// Help is printed by --help below the usage line.
func (Cmd) Help() string {
	return `The answers are hints: a lock can change at any time. On Redis, a number is the last one of 1/256 of all locks, so the holder's may ` +
		`be lower; of the waiters of one process, only the first is known. docs/stuck.md is for a job that is stuck.

Examples:
  fencepost locks list --redis redis://locks:6379 --prefix job/
  FENCEPOST_POSTGRES_URL=postgres://operator:secret@db/locks fencepost locks show job/report
  FENCEPOST_BEARER=secret fencepost locks list --url https://locks.example.com`
}

// withStore connects, and calls fn with a context that a signal ends.
func (m *Cmd) withStore(fn func(ctx context.Context, store token.Inspector) error) error {
	ctx, done := cli.UntilSignal(context.Background())
	defer done()
	if m.URL != "" {
		u, err := url.Parse(m.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
			return connect.BadURL("--url: not an http:// or https:// URL with a host, and the token in --bearer,")
		}
		return connect.WithCause(ctx, fn(ctx, &httptoken.Issuer{URL: strings.TrimSuffix(m.URL, "/"), Bearer: m.Bearer, Operator: true}))
	}
	store, err := m.Open(ctx, "fencepost locks", m.KeyPrefix)
	if err != nil {
		return err
	}
	defer store.Shutdown()
	return connect.WithCause(ctx, connect.NotMigrated(m.Schema, fn(ctx, store)))
}

// lock is the object of JSON.
type lock struct {
	Resource  string       `json:"resource"`
	Holder    string       `json:"holder"` // empty if it is free
	Number    marks.Number `json:"number,string"`
	Since     *time.Time   `json:"since"` // the lock was granted then or earlier; nil if it is free
	Remaining float64      `json:"remaining_seconds"`
	Waiters   []string     `json:"waiters"`
}

func newLock(s token.State) lock {
	l := lock{s.Resource, s.Holder, marks.Number(s.Number), nil, s.Remaining.Seconds(), append([]string{}, s.Waiters...)}
	if since := l.Number.Time(); s.Holder != "" {
		l.Since = &since
	}
	return l
}

// show prints a lock and a remark, and returns what the command returns.
func show(std cli.Streams, asJSON bool, s token.State, remark string, answer error) error {
	l := newLock(s)
	rows := [][]string{{"holder", "none: the lock is free"}, {"number", fmt.Sprint(l.Number)}}
	if s.Holder != "" {
		// The number was the issuer's clock, or above it if the issuer was ahead or is raised.
		since := "about " + l.Number.Date() + ", " + l.Number.Age(marks.Number(time.Now().UnixMicro()/10)) + ", or earlier"
		rows = [][]string{{"holder", s.Holder}, rows[1], {"since", since}, {"ends in", marks.Span(s.Remaining) + ", unless it is renewed"}}
	}
	for i, waiter := range s.Waiters {
		rows = append(rows, []string{fmt.Sprint("waiter ", i+1), waiter})
	}
	if len(s.Waiters) == 0 {
		rows = append(rows, []string{"waiters", "none"})
	}
	return errors.Join(cli.PrintResult(std.Out, asJSON, l, table(s.Resource, rows)+remark), answer)
}

// table writes rows below a title.
func table(title string, rows [][]string) string {
	for _, row := range rows {
		row[1] = cli.Visible(row[1])
	}
	return cli.Visible(title) + "\n\n" + strings.Join(cli.Columns(rows), "\n") + "\n"
}

type listCmd struct {
	Prefix string `env:"FENCEPOST_LOCKS_LIST_PREFIX" help:"Only locks whose names begin with this text."`
	JSON   bool   `name:"json" help:"Print one JSON object a line instead."`
}

// Help is printed by --help below the usage line.
func (listCmd) Help() string {
	return `Examples:
  fencepost locks list --postgres postgres://operator@db/locks --prefix job/`
}

// Run is called by kong.
func (c *listCmd) Run(std cli.Streams, m *Cmd) error {
	return m.withStore(func(ctx context.Context, store token.Inspector) error {
		found := map[string]token.State{} // an issuer may return a lock twice
		for s, err := range store.Locks(ctx, c.Prefix) {
			if err != nil {
				return err
			}
			found[s.Resource] = s
		}
		rows := [][]string{{"lock", "holder", "number", "granted about", "ends in", "waiters"}}
		for _, name := range slices.Sorted(maps.Keys(found)) {
			s := found[name]
			l := newLock(s)
			rows = append(rows, []string{cli.Visible(name), cli.Visible(s.Holder), fmt.Sprint(l.Number), l.Number.Date(), marks.Span(s.Remaining), fmt.Sprint(len(s.Waiters))})
			if c.JSON {
				if err := cli.PrintResult(std.Out, true, l, ""); err != nil {
					return err
				}
			}
		}
		if c.JSON {
			return nil
		}
		return cli.Print(std.Out, fmt.Sprintf("%s\n%d locks\n", strings.Join(cli.Columns(rows), "\n"), len(found)))
	})
}

type showCmd struct {
	Name string `arg:"" help:"The lock, by its whole name."`
	JSON bool   `name:"json" help:"Print one JSON object instead."`
}

// Help is printed by --help below the usage line.
func (showCmd) Help() string {
	return `Exit status 1 if the lock is free.

Example:
  fencepost locks show job/report --redis redis://locks:6379`
}

// Run is called by kong.
func (c *showCmd) Run(std cli.Streams, m *Cmd) error {
	if err := token.ValidateResource(c.Name); err != nil {
		return err
	}
	return m.withStore(func(ctx context.Context, store token.Inspector) error {
		state, err := store.Inspect(ctx, c.Name)
		if err != nil {
			return err
		}
		if state.Holder == "" {
			err = cli.ErrNo // it is printed
		}
		return show(std, c.JSON, state, "", err)
	})
}
