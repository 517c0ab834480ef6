package lockset_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/lockset"
)

// answering is a database that gives one answer.
type answering struct{ err error }

func (d answering) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, d.err
}

var errOver = errors.New("over")

// unsent is an error of pgx's for what it did not send.
type unsent struct{ error }

func (unsent) SafeToRetry() bool { return true }

// Without a guard, too, what was sent and not answered must not count as lost
// or as not written.
func TestWhatAPlainWriteKnows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err     error
		unknown bool
	}{
		"done":                          {nil, false},
		"the server has refused":        {&pgconn.PgError{Code: "23505"}, false},
		"it was not sent":               {unsent{io.EOF}, false},
		"sent, and the connection fell": {io.ErrUnexpectedEOF, true},
		"sent, and the context ended":   {context.Canceled, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := lockset.ExecPlain(t.Context(), answering{c.err})
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.unknown, errors.Is(err, guard.ErrUnknown))
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errOver)
	require.Equal(t, errOver, lockset.ExecPlain(ctx, answering{io.EOF}), "nothing was sent")
}
