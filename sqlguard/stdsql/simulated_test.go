package stdsql_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/heard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

func TestSteps(t *testing.T) {
	t.Parallel()
	all := func(steps ...point.Step) []point.Step { return steps }
	mine, broken := errors.New("fn's own"), errors.New("disk I/O error")
	for name, c := range map[string]struct {
		number int64
		commit func(openTx) error
		call   func(ctx context.Context, g *stdsql.Guard) error
		is     error
		steps  []point.Step
	}{
		"Update": {33, nil, func(ctx context.Context, g *stdsql.Guard) error { return g.Update(ctx, account, add(ctx, 10)) },
			nil, all("begin", "admitted", "commit", "applied")},
		"Update, refused": {32, nil, func(ctx context.Context, g *stdsql.Guard) error { return g.Update(ctx, account, add(ctx, 10)) },
			guard.ErrStale, all("begin", "undone")},
		"Update, whose fn fails": {33, nil, func(ctx context.Context, g *stdsql.Guard) error {
			return g.Update(ctx, account, func(*sql.Tx) error { return mine })
		}, mine, all("begin", "admitted", "undone")},
		"Update, whose fn fails with what another write came to": {33, nil, func(ctx context.Context, g *stdsql.Guard) error {
			return g.Update(ctx, account, func(*sql.Tx) error { return guard.ErrUnknown })
		}, guard.ErrUnknown, all("begin", "admitted", "undone")},
		"Update, whose fn commits": {33, nil, func(ctx context.Context, g *stdsql.Guard) error {
			return g.Update(ctx, account, func(tx *sql.Tx) error { return errors.Join(mine, tx.Commit()) })
		}, guard.ErrUnknown, all("begin", "admitted", "unknown")},
		"Update, without an answer to COMMIT": {33, func(tx openTx) error { return errors.Join(broken, tx.Commit()) },
			func(ctx context.Context, g *stdsql.Guard) error { return g.Update(ctx, account, add(ctx, 10)) },
			guard.ErrUnknown, all("begin", "admitted", "commit", "unknown")},
		"Admit": {33, nil, func(ctx context.Context, g *stdsql.Guard) error { return g.Admit(ctx, tok(34, "a")) },
			nil, all("begin", "undone")},
		"Join": {33, nil, func(ctx context.Context, g *stdsql.Guard) error {
			return inTx(t, g.DB, func(tx *sql.Tx) error { return g.Join(ctx, tx, account) })
		}, nil, all("admitted")},
		"Join, of what cannot be compared": {33, nil, func(ctx context.Context, g *stdsql.Guard) error {
			return inTx(t, g.DB, func(tx *sql.Tx) error { return g.Join(ctx, loose{Tx: tx}, account) })
		}, nil, all("admitted")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, db *database) {
				db.claim(t, tok(33, "a"))
				g := db.over(db.hooked(t, &hooks{commit: c.commit}))
				var h heard.Record
				require.ErrorIs(t, c.call(h.Listen(holding(t, c.number, "a")), g), c.is)
				require.Equal(t, c.steps, h.Steps)
				for _, key := range h.Keys {
					require.True(t, h.Keys[0] == key, "one transaction")
				}
			})
		})
	}
}

func TestStepsOfATokenThatWasNotClaimed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		var h heard.Record
		ctx := h.Listen(holding(t, 33, "a"))
		require.NoError(t, db.update(ctx, add(ctx, 10)))
		steps := []point.Step{"begin", "admitted", "commit", "applied"}
		if db.dialect != stdsql.SQLite {
			steps = append([]point.Step{"begin", "undone", "begin", "undone"}, steps...)
		}
		require.Equal(t, steps, h.Steps)
	})
}

// loose is a wrapper of a transaction that cannot be compared.
type loose struct {
	stdsql.Tx
	_ func()
}

// While a writer is held up at a step, others see what the step's name says.
func TestSQLiteAStepIsWhereItsNameSays(t *testing.T) {
	t.Parallel()
	file := newFile(t, patient+"&"+wal)
	db, other := onSQLite(t, file, patient+"&"+wal), onSQLite(t, file, hasty+"&"+wal)
	type sight struct {
		locked  bool
		balance int
	}
	seen := map[point.Step]sight{}
	h := heard.Record{Look: func(step point.Step) {
		_, err := other.Exec("UPDATE ledger SET number = 1")
		seen[step] = sight{err != nil, balance(t, other)}
	}}
	ctx := h.Listen(holding(t, 33, "a"))
	require.NoError(t, db.update(ctx, add(ctx, 10)))
	require.Equal(t, map[point.Step]sight{
		point.Begin: {false, 100}, point.Admitted: {true, 100}, point.Commit: {true, 100}, point.Applied: {false, 110},
	}, seen)
}

// It changes the program's logger, so it runs alone.
func TestAnUnguardedTwinWritesInSilence(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	for _, open := range envs {
		for _, loud := range []bool{false, true} {
			db, observed := open(t), 0
			g := db.guard()
			if loud {
				g.Observer = guard.Observer{
					Refused:  func(context.Context, error) { t.Error("refused") },
					Observed: func(context.Context, error) { observed++ },
				}
			}
			db.claim(t, tok(33, "a"))
			for _, ctx := range []context.Context{holding(t, 32, "b"), holding(t, 33, "b"), t.Context(), holding(t, 34, "")} {
				twin := point.Observe(ctx)
				require.NoError(t, g.Update(twin, account, add(twin, 10)))
				require.NoError(t, inTx(t, g.DB, func(tx *sql.Tx) error { return g.Join(twin, tx, account) }))
				require.NoError(t, g.Admit(twin, token.Token{}))
			}
			require.Equal(t, 140, balance(t, db))
			require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, db.mark(t, account))
			require.Equal(t, map[bool]int{true: 12}[loud], observed)
		}
	}
	require.Empty(t, log.String())
	refused := newSQLite(t).guard()
	require.ErrorIs(t, refused.Update(t.Context(), account, add(t.Context(), 10)), token.ErrMissing)
}
