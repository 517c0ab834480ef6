package pgadmit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/pgadmit"
	"github.com/fencepost/fencepost/internal/writectx"
)

// sqlError is an error of the server.
type sqlError string

func (e sqlError) Error() string    { return "SQLSTATE " + string(e) }
func (e sqlError) SQLState() string { return string(e) }

// script is what a server does, one element for each session that is opened. A session
// returns the fates in order, and the last one for ever.
type script struct {
	sessions []step
	opened   int
	ended    int
	open     int // sessions that are not closed
}

type step struct {
	err   error // of opening it
	fates []pgadmit.Fate
	asked error // returned instead of a fate
	// confirmed are the errors of Confirm, in order. After them it returns nil.
	confirmed []error
}

func (s *script) session(context.Context) (pgadmit.Session, error) {
	next := s.sessions[min(s.opened, len(s.sessions)-1)]
	s.opened++
	if next.err != nil {
		return nil, next.err
	}
	s.open++
	return &session{s, next}, nil
}

type session struct {
	*script
	step
}

func (s *session) Fate(context.Context, pgadmit.TxName) (pgadmit.Fate, error) {
	if s.asked != nil {
		return "", s.asked
	}
	fate := s.fates[0]
	if len(s.fates) > 1 {
		s.fates = s.fates[1:]
	}
	return fate, nil
}

func (s *session) Confirm(ctx context.Context) error {
	if len(s.confirmed) == 0 {
		return nil
	}
	err := s.confirmed[0]
	s.confirmed = s.confirmed[1:]
	if errors.Is(err, errHangs) { // as lib/pq, which cancels the wait, and then sees success
		<-ctx.Done()
		return nil
	}
	return err
}

func (s *session) End(context.Context, pgadmit.TxName) error {
	s.ended++
	return sqlError("42501") // the role may not: the server ends the session in time
}

func (s *session) Close(context.Context) { s.script.open-- }

// errHangs stands for a Confirm that returns when its context ends.
var errHangs = errors.New("hangs")

func TestSettle(t *testing.T) {
	t.Parallel()
	const name = pgadmit.TxName("731 4711 incarnation")
	refused := errors.New("connection refused")
	for what, c := range map[string]struct {
		name                    pgadmit.TxName
		sessions                []step
		cancelled               bool
		want                    pgadmit.Fate
		err                     string
		opened, ended           int
		openedOften, endedOften bool          // more than thirty times
		until                   time.Duration // how long it takes; 0 if that is not fixed
	}{
		"committed": {name: name, sessions: []step{{fates: []pgadmit.Fate{pgadmit.Committed}}}, want: pgadmit.Committed, opened: 1},
		"aborted":   {name: name, sessions: []step{{fates: []pgadmit.Fate{pgadmit.Aborted}}}, want: pgadmit.Aborted, opened: 1},
		"committed, and the wait for the standby is cancelled once": {
			name: name, sessions: []step{{fates: []pgadmit.Fate{pgadmit.Committed}, confirmed: []error{pgadmit.ErrWaitCancelled}}, {fates: []pgadmit.Fate{pgadmit.Committed}}},
			want: pgadmit.Committed, opened: 2,
		},
		"committed, and the standby is away": {
			name: name, sessions: []step{{fates: []pgadmit.Fate{pgadmit.Committed}, confirmed: []error{errHangs}}},
			err: "not known whether the standbys have it: context deadline exceeded", opened: 1, until: writectx.Timeout,
		},
		"committed, and the log cannot be written": {
			name: name, sessions: []step{{fates: []pgadmit.Fate{pgadmit.Committed}, confirmed: []error{sqlError("25006")}}},
			err: "not known whether the standbys have it: SQLSTATE 25006", opened: 1,
		},
		"a fate of a newer server": {
			name: name, sessions: []step{{fates: []pgadmit.Fate{"forgotten"}}}, err: "does not have the transaction's fate", opened: 1,
		},
		"not known":      {name: name, sessions: []step{{fates: []pgadmit.Fate{""}}}, err: "does not have the transaction's fate", opened: 1},
		"no incarnation": {name: "731 4711 none", err: "had no incarnation"},
		"in progress, then aborted": {
			name: name, sessions: []step{{fates: []pgadmit.Fate{pgadmit.InProgress, pgadmit.InProgress, pgadmit.Aborted}}},
			want: pgadmit.Aborted, opened: 1, ended: 2,
		},
		"in progress for ever": {
			name: name, sessions: []step{{fates: []pgadmit.Fate{pgadmit.InProgress}}},
			err: "still in progress", opened: 1, endedOften: true, until: writectx.Timeout,
		},
		"the server starts": {
			name: name, sessions: []step{{err: refused}, {err: sqlError("57P03")}, {asked: sqlError("57P01")}, {fates: []pgadmit.Fate{pgadmit.Committed}}},
			want: pgadmit.Committed, opened: 4,
		},
		"the server is not reached": {name: name, sessions: []step{{err: refused}}, err: refused.Error(), openedOften: true, until: writectx.Timeout},
		"not reached, and the caller has left": {
			name: name, sessions: []step{{err: refused}}, cancelled: true, err: refused.Error(), opened: 1,
		},
		"the caller has left, and the server answers": {
			name: name, sessions: []step{{fates: []pgadmit.Fate{pgadmit.InProgress, pgadmit.Committed}}}, cancelled: true,
			want: pgadmit.Committed, opened: 1, ended: 1,
		},
		"the function is not there": {name: name, sessions: []step{{asked: sqlError("42883")}}, err: "SQLSTATE 42883", opened: 1},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancelled {
					cancel()
				}
				s, began := &script{sessions: c.sessions}, time.Now()
				fate, err := pgadmit.Settle(ctx, c.name, s.session)
				require.Equal(t, c.want, fate)
				if c.err == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, c.err)
				}
				if c.openedOften {
					require.Greater(t, s.opened, 30)
				} else {
					require.Equal(t, c.opened, s.opened)
				}
				if c.endedOften {
					require.Greater(t, s.ended, 30)
				} else {
					require.Equal(t, c.ended, s.ended)
				}
				if c.until != 0 {
					require.Equal(t, c.until, time.Since(began))
				}
				require.Zero(t, s.open, "every session is closed")
			})
		})
	}
}
