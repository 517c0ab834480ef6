package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// session has the lock of a resource, or waits for it. Role, application, state
// and since are empty where the role of the command may not see them.
type session struct {
	PID         int        `json:"pid"`
	Mode        string     `json:"mode"` // shared: writes under the mark; exclusive: raises or prunes it
	Granted     bool       `json:"granted"`
	Role        string     `json:"role"`
	Application string     `json:"application_name"`
	State       string     `json:"state"`
	Since       *time.Time `json:"since"` // its transaction's start
	seconds     *float64
}

func (db *marks) sessions(ctx context.Context, resource string) ([]session, error) {
	// CollectRows returns its error.
	rows, _ := db.Query(ctx, db.sql("marks_sessions.sql"), resource)
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (session, error) {
		var s session
		err := row.Scan(&s.PID, &s.Mode, &s.Granted, &s.Role, &s.Application, &s.State, &s.Since, &s.seconds)
		return s, err
	})
}

// does says what a session's lock means.
func (s session) does() string {
	switch {
	case !s.Granted:
		return "waits"
	case s.Mode == "shared":
		return "writes"
	}
	return "raises the mark"
}

func sessionTable(sessions []session, paint style) string {
	if len(sessions) == 0 {
		return "  Nobody is admitted, and nobody waits.\n"
	}
	rows := [][]string{{"pid", "does", "role", "application", "state", "since"}}
	for _, s := range sessions {
		since := ""
		if s.seconds != nil {
			since = span(time.Duration(*s.seconds * float64(time.Second)))
		}
		rows = append(rows, []string{fmt.Sprint(s.PID), s.does(), visible(s.Role), visible(s.Application), s.State, since})
	}
	lines := columns(rows)
	lines[0] = paint.dim(lines[0])
	return strings.Join(lines, "\n") + "\n"
}
