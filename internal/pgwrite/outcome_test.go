package pgwrite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgadmit"
)

func TestWhatAnErrorOfACommitMeans(t *testing.T) {
	t.Parallel()
	server := func(code, severity string) error {
		return fmt.Errorf("commit: %w", &pgconn.PgError{Code: code, Severity: "FEHLER", SeverityUnlocalized: severity})
	}
	for name, c := range map[string]struct {
		err       error
		ambiguous bool
		outcome   error // of a transaction that was not committed
	}{
		"the connection broke":                    {io.ErrUnexpectedEOF, true, nil},
		"pgx has closed the connection":           {pgconn.ErrConnClosed, true, nil},
		"the server has rolled back":              {pgx.ErrTxCommitRollback, false, nil},
		"a deferred constraint":                   {server("23505", "ERROR"), false, nil},
		"a serialization failure":                 {server(pgadmit.Serialization, "ERROR"), false, guard.ErrRetryable},
		"the session was ended, perhaps too late": {server(pgadmit.Terminated, "FATAL"), true, guard.ErrEvicted},
		"the server has crashed":                  {server("57P02", "FATAL"), true, nil},
		"a pooler has lost its server":            {server("08006", "ERROR"), true, nil},
		"a guarded write inside had an outcome":   {&OutcomeError{guard.ErrStale, server(pgadmit.Stale, "ERROR")}, false, guard.ErrStale},
	} {
		require.Equal(t, c.ambiguous, ambiguous(c.err), name)
		err := NothingApplied(c.err)
		require.ErrorIs(t, err, c.err, name)
		for _, outcome := range []error{guard.ErrStale, guard.ErrRetryable, guard.ErrUnknown, guard.ErrEvicted} {
			require.Equal(t, errors.Is(c.outcome, outcome), errors.Is(err, outcome), "%s: %v", name, outcome)
		}
	}
	require.False(t, ambiguous(nil))
	require.NoError(t, NothingApplied(nil))
}

func TestWhichErrorsAStandbyReturns(t *testing.T) {
	t.Parallel()
	for err, want := range map[pgconn.PgError]bool{
		{Code: pgadmit.ReadOnly, Message: onStandby}:                          true,
		{Code: pgadmit.ReadOnly, Message: "cannot execute UPDATE"}:            false,
		{Code: pgadmit.NoFunction}:                                            true,
		{Code: pgadmit.NoSchema}:                                              true,
		{Code: pgadmit.Serialization, File: "postgres.c"}:                     true,
		{Code: pgadmit.Serialization, File: "standby.c"}:                      true,
		{Code: pgadmit.Serialization, File: "predicate.c"}:                    false,
		{Code: pgadmit.Stale}:                                                 false,
		{Code: pgadmit.Terminated, Severity: "FATAL", Message: "terminating"}: false,
		{}: false,
	} {
		require.Equal(t, want, mayBeStandby(&err), "%+v", err)
	}
}

// unidentified is a server without the functions of the engine query.
type unidentified struct{}

func (unidentified) SendBatch(_ context.Context, b *pgx.Batch) pgx.BatchResults {
	return pgx.FailedBatchResults(b, &pgconn.PgError{Code: "42883"})
}

// The error of the engine says that nothing was applied, and in report-only mode all is.
func TestAReportOfTheEngineSaysThatItRefusesNothing(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	var seen []error
	for _, hook := range []func(context.Context, error){nil, func(_ context.Context, err error) { seen = append(seen, err) }} {
		c := &Call{Config: &Config{DangerouslyReportOnly: true, Hooks: guard.Hooks{Reported: hook}}}
		for range 2 { // it is reported once
			require.NoError(t, c.checkEngine(t.Context(), session{db: unidentified{}}))
		}
	}
	const text = "sqlguard: report-only, would have refused: guard: the database is not known to fence"
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte(text)), log.String())
	require.Len(t, seen, 1)
	require.ErrorIs(t, seen[0], guard.ErrUnfenced)
	require.ErrorContains(t, seen[0], text)
}
