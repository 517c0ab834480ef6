package pgadmit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgadmit"
	"github.com/fencepost/fencepost/token"
)

func TestStates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state, severity        string
		outcome                error
		ambiguous, interrupted bool
	}{
		{pgadmit.Serialization, "ERROR", guard.ErrRetryable, false, false},
		{pgadmit.Deadlock, "", guard.ErrRetryable, false, false},
		{pgadmit.Idle, "FATAL", guard.ErrEvicted, false, false},
		{pgadmit.TooLong, "FATAL", guard.ErrEvicted, false, true},
		{pgadmit.Terminated, "FATAL", guard.ErrEvicted, false, true},
		{pgadmit.Terminated, "", guard.ErrEvicted, false, true},
		{pgadmit.Cancelled, "ERROR", nil, false, false},
		{pgadmit.Cancelled, "", nil, false, false},
		{"23505", "ERROR", nil, false, false},
		{"23505", "", nil, false, false},
		{"08006", "ERROR", nil, true, false}, // from a pooler, whatever its severity
		{"08006", "", nil, true, false},
		{"53100", "ERROR", nil, false, false},
		{"53100", "PANIC", nil, true, false},
		{"53100", "", nil, true, false},
		{"57P02", "FATAL", nil, true, false},
		{"57P02", "", nil, true, false},
		{"58030", "", nil, true, false},
		{"XX000", "ERROR", nil, false, false},
		{"XX000", "", nil, true, false},
		{"", "", nil, false, false},
	} {
		name := c.state + " " + c.severity
		require.Equal(t, c.outcome, pgadmit.Outcome(c.state), name)
		require.Equal(t, c.ambiguous, pgadmit.Ambiguous(c.state, c.severity), name)
		require.Equal(t, c.interrupted, pgadmit.Interrupted(c.state), name)
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	tok := token.Token{Resource: "account/42", Number: 33, Holder: "a"}
	for _, c := range []struct {
		state, detail string
		mark          guard.Mark
	}{
		{pgadmit.Stale, "34 b with a space", guard.Mark{Number: 34, Holder: "b with a space"}},
		{pgadmit.Stale, "34 b with a space\naccount/42", guard.Mark{Number: 34, Holder: "b with a space"}},
		{pgadmit.Stale, "34 \naccount/42", guard.Mark{Number: 34}},
		{pgadmit.Stale, "", guard.Mark{}},
		{pgadmit.Stale, "account/42 b", guard.Mark{}},
		{pgadmit.Collision, "33 b", guard.Mark{Number: 33, Holder: "b"}},
		{pgadmit.Collision, "", guard.Mark{Number: 33}},
	} {
		require.Equal(t, &guard.StaleError{Token: tok, Mark: c.mark}, pgadmit.Refusal(tok, c.state, c.detail))
	}
	require.Nil(t, pgadmit.Refusal(tok, pgadmit.ClaimFirst, "34 b"))
}
