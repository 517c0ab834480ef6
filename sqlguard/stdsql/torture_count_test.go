package stdsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

var errRolledBack = errors.New("rolled back")

// counting is one read-modify-write, in three steps. One in ten rolls back.
func counting(g *stdsql.Guard) update {
	return func(ctx context.Context, tok token.Token) error {
		return g.Update(ctx, tok.Resource, func(tx *sql.Tx) error {
			n, err := countRead(ctx, tx, tok.Resource)
			if err != nil {
				return err
			}
			return countWrite(ctx, tx, n+1, tok)
		})
	}
}

func countRead(ctx context.Context, q querier, resource string) (n int64, err error) {
	err = q.QueryRowContext(ctx, "SELECT n FROM counters WHERE resource = '"+resource+"'").Scan(&n)
	return n, err
}

func countWrite(ctx context.Context, q querier, n int64, tok token.Token) error {
	for _, statement := range []string{
		fmt.Sprintf("INSERT INTO ledger (resource, number, holder) VALUES ('%s', %d, '%s')", tok.Resource, tok.Number, tok.Holder),
		fmt.Sprintf("UPDATE counters SET n = %d WHERE resource = '%s'", n, tok.Resource),
	} {
		if _, err := q.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if rand.IntN(10) == 0 {
		return errRolledBack
	}
	return nil
}

// lost counts the acknowledged writes that the counters do not remember.
func (tt *torture) lost(t *testing.T) (lost int64) {
	t.Helper()
	for resource, counter := range tt.counters {
		n, err := countRead(t.Context(), tt, resource)
		require.NoError(t, err)
		lost += counter.acked.Load() - n
	}
	return lost
}

// disorder counts the writes that came after one of a newer token, or of
// another holder with the same number.
func (tt *torture) disorder(t *testing.T) (disorder int) {
	t.Helper()
	rows, err := tt.QueryContext(t.Context(), "SELECT resource, number, holder FROM ledger ORDER BY seq")
	require.NoError(t, err)
	defer rows.Close()
	marks := map[string]guard.Mark{}
	for rows.Next() {
		var tok token.Token
		require.NoError(t, rows.Scan(&tok.Resource, &tok.Number, &tok.Holder))
		if marks[tok.Resource].Admits(tok) != nil {
			disorder++
			continue
		}
		marks[tok.Resource] = guard.Mark{Number: tok.Number, Holder: tok.Holder}
	}
	require.NoError(t, rows.Err())
	return disorder
}
