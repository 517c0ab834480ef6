package history_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/token"
)

func TestOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err         error
		write, lock history.Outcome
	}{
		{nil, history.Accepted, history.Accepted},
		{guard.ErrStale, history.Refused, history.Unknown},
		{token.ErrReleased, history.Refused, history.Unknown},
		{guard.ErrEvicted, history.Failed, history.Unknown},
		{guard.ErrRetryable, history.Failed, history.Unknown},
		{guard.ErrClaimFirst, history.Failed, history.Unknown},
		{guard.ErrUnknown, history.Unknown, history.Unknown},
		{token.ErrLost, history.Unknown, history.Refused},
		{token.ErrHeld, history.Unknown, history.Refused},
		{errors.New("no disk"), history.Unknown, history.Unknown},
	} {
		for _, err := range []error{c.err, fmt.Errorf("wrapped: %w", c.err)} {
			if c.err == nil {
				err = nil
			}
			require.Equal(t, c.write, history.OutcomeOf(err), "%v", err)
			require.Equal(t, c.lock, history.LockOutcomeOf(err), "%v", err)
		}
	}
}

var malformed = []struct {
	reason string
	spoil  func(*history.Op)
}{
	{"no such kind", func(op *history.Op) { op.Kind = "" }},
	{"no such kind", func(op *history.Op) { op.Kind = "writes" }},
	{"no such outcome", func(op *history.Op) { op.Outcome = "" }},
	{"no such outcome", func(op *history.Op) { op.Outcome = "ok" }},
	{"no writer", func(op *history.Op) { op.Writer = "" }},
	{"no resource", func(op *history.Op) { op.Resource = "" }},
	{"it ended before it began", func(op *history.Op) { op.Ended = op.Began - 1 }},
	{"a number or version below zero", func(op *history.Op) { op.Number = -1 }},
	{"a number or version below zero", func(op *history.Op) { op.Kind, op.Seen = history.Write, -1 }},
	{"a number or version below zero", func(op *history.Op) { op.Kind, op.Made = history.Write, -1 }},
	{"granted without a token", func(op *history.Op) { op.Number = 0 }},
	{"granted without a token", func(op *history.Op) { op.Holder = "" }},
	{"only acquire and renew have an until", func(op *history.Op) { op.Kind, op.Until = history.Release, 1 }},
	{"only read, unit and write are counted", func(op *history.Op) { op.Counted = 1 }},
	{"only read, unit and write are counted", func(op *history.Op) { op.Kind, op.Traced = history.Claim, true }},
	{"counted but not traced", func(op *history.Op) { op.Kind, op.Counted = history.Unit, 1 }},
	{"only a write has versions", func(op *history.Op) { op.Seen = 1 }},
	{"only a write has versions", func(op *history.Op) { op.Kind, op.Made = history.Unit, 1 }},
}

func grant() history.Op {
	return history.Op{
		Kind: history.Acquire, Writer: "A", Resource: "account/42", Outcome: history.Accepted,
		Began: 1, Ended: 2, Number: 1, Holder: "a", Until: 9,
	}
}

func TestAMalformedHistoryIsNotJudged(t *testing.T) {
	t.Parallel()
	op := grant()
	require.NoError(t, op.Check())
	for _, m := range malformed {
		op := grant()
		if m.spoil(&op); op.Kind != history.Acquire && m.reason != "only acquire and renew have an until" {
			op.Until = 0
		}
		if m.reason == "no such kind" {
			op.Until = 0
		}
		found, err := history.Check(history.History{Ops: []history.Op{grant(), op}})
		require.ErrorContains(t, err, fmt.Sprintf("history: malformed %s of %q on %q", op.Kind, op.Writer, op.Resource))
		require.ErrorContains(t, err, ": "+m.reason)
		require.Empty(t, found)
	}
}

func TestAnOpErrorNamesTheOp(t *testing.T) {
	t.Parallel()
	op := grant()
	op.Ended = 0
	require.EqualError(t, op.Check(),
		`history: malformed acquire of "A" on "account/42" from 1ns to 0s: it ended before it began`)
}

func TestLimitsBelowZeroAreNotJudged(t *testing.T) {
	t.Parallel()
	for _, h := range []history.History{{TTL: -1}, {Bound: -1}, {Slack: -1}} {
		_, err := history.Check(h)
		require.EqualError(t, err, "history: a limit is below zero")
	}
}
