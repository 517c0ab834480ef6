package guard_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

// A caller branches by errors.Is: each outcome is itself and no other, and only
// a refusal speaks of the token.
func TestOutcomesAreTold(t *testing.T) {
	t.Parallel()
	all := []error{guard.ErrRetryable, guard.ErrUnknown, guard.ErrEvicted, guard.ErrClaimFirst, guard.ErrNoRow, guard.ErrStale, guard.ErrCollision}
	for i, outcome := range all {
		err := fmt.Errorf("withdraw: %w", outcome)
		for j, other := range all {
			require.Equal(t, i == j, errors.Is(err, other), "%v, %v", err, other)
		}
		require.Equal(t, outcome == guard.ErrStale, guard.Refusal(err), "%v", err)
	}
}
