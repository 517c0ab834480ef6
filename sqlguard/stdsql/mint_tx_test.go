package stdsql_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// onMintTx runs a test on the databases on which a caller's transaction can mint.
func onMintTx(t *testing.T, test func(t *testing.T, db *database)) {
	t.Helper()
	for name, open := range map[string]func(*testing.T) *database{"PostgreSQL": newPostgres, "SQLite": newSQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func TestMintTxCountsFromTheCommitOn(t *testing.T) {
	t.Parallel()
	onMintTx(t, func(t *testing.T, db *database) {
		db.claim(t, tok(33, "a"))
		var minted token.Token
		require.NoError(t, inTx(t, db, func(tx *sql.Tx) (err error) {
			minted, err = mintedToken(db.over(nil).MintTx(t.Context(), tx, account, "b"))
			require.NoError(t, err)
			require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, db.mark(t, account), "others see what was")
			ctx := token.NewContext(t.Context(), minted)
			require.NoError(t, db.over(nil).Join(ctx, tx, account), "it is admitted")
			return add(ctx, 10)(tx)
		}))
		require.Equal(t, guard.Mark{Number: minted.Number, Holder: "b"}, db.mark(t, account))
		late, ctx := holding(t, 33, "a"), token.NewContext(t.Context(), minted)
		require.ErrorIs(t, db.update(late, add(late, 1)), guard.ErrStale)
		require.NoError(t, db.update(ctx, add(ctx, 10)))
		require.Equal(t, 120, balance(t, db))
	})
}

func TestMintTxThatIsRolledBackLeavesNothing(t *testing.T) {
	t.Parallel()
	onMintTx(t, func(t *testing.T, db *database) {
		for _, before := range []guard.Mark{{}, {Number: 33, Holder: "a"}} {
			if before.Number != 0 {
				db.claim(t, tok(33, "a"))
			}
			changed := errors.New("changed its mind")
			require.ErrorIs(t, inTx(t, db, func(tx *sql.Tx) error {
				_, err := db.guard().MintTx(t.Context(), tx, account, "b")
				require.NoError(t, err)
				return changed
			}), changed)
			require.Equal(t, before, db.mark(t, account))
		}
		older := holding(t, 33, "a")
		require.NoError(t, db.update(older, add(older, 10)))
	})
}

func TestPostgresMintTxBoundsTheIdleTime(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	for _, reportOnly := range []bool{false, true} {
		g := db.guard()
		g.DangerouslyReportOnly, g.IdleTimeout = reportOnly, 0
		require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
			_, err := g.MintTx(t.Context(), tx, account, "a")
			want := map[bool]string{false: "5s", true: "0"}[reportOnly]
			require.Equal(t, want, one[string](t, tx, "SHOW idle_in_transaction_session_timeout"))
			return err
		}))
	}
}

// Inside an Update, MintTx mints for another resource in the same transaction.
func TestMintTxInsideAnUpdate(t *testing.T) {
	t.Parallel()
	onMintTx(t, func(t *testing.T, db *database) {
		ctx := holding(t, 33, "a")
		var minted token.Token
		require.NoError(t, db.update(ctx, func(tx *sql.Tx) (err error) {
			minted, err = mintedToken(db.guard().MintTx(ctx, tx, "job/1", "worker"))
			return errors.Join(err, add(ctx, 10)(tx))
		}))
		require.Equal(t, guard.Mark{Number: minted.Number, Holder: "worker"}, db.mark(t, "job/1"))
		require.Error(t, db.update(ctx, func(tx *sql.Tx) error {
			_, err := db.guard().MintTx(ctx, tx, "job/1", "")
			require.ErrorIs(t, err, token.ErrInvalid)
			_ = write(ctx, tx, 0)
			return nil
		}), "the error is ignored, and nothing written")
		require.Equal(t, 110, balance(t, db))
	})
}

// hazard G23
func TestPostgresMintTxUnderAFixedSnapshot(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	db.claim(t, tok(33, "a"))
	older := holding(t, 33, "a")
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		require.NoError(t, err)
		defer tx.Rollback()
		_, err = db.guard().MintTx(t.Context(), tx, account, "b")
		require.ErrorIs(t, err, guard.ErrClaimFirst)
		require.ErrorContains(t, err, "stdsql: mint account/42: ")
		require.False(t, guard.IsRefusal(err))
		require.Error(t, write(t.Context(), tx, 0), "the transaction is aborted")
	}
	require.NoError(t, db.update(older, add(older, 10)))
	require.Equal(t, 110, balance(t, db))
}

// hazard G23
func TestMySQLMintTxIsForATransactionOfItsOwn(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	db.claim(t, tok(33, "a"))
	older := holding(t, 33, "a")
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelSerializable} {
		tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		require.NoError(t, err)
		_, err = db.guard().MintTx(t.Context(), tx, account, "b")
		require.ErrorIs(t, err, guard.ErrClaimFirst)
		require.ErrorContains(t, err, "stdsql: mint account/42: ")
		require.ErrorIs(t, write(t.Context(), tx, 0), sql.ErrTxDone, "it is rolled back")
	}
	require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, db.mark(t, account))
	require.NoError(t, db.update(older, add(older, 10)))

	// The sequence in the error's text: Mint, begin, Join.
	minted := db.mint(t, "b")
	ctx := token.NewContext(t.Context(), minted)
	require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
		require.NoError(t, db.guard().Join(ctx, tx, account))
		return add(ctx, 10)(tx)
	}))
	require.Equal(t, 120, balance(t, db))

	// The twin mints in a transaction that has read, which a guard cannot detect.
	reading := connect(t, "mysql", db.setting(t, "innodb_snapshot_isolation", "OFF")) // as MariaDB up to 11.5 and MySQL do
	require.NoError(t, inTx(t, reading, func(tx *sql.Tx) error {
		require.Equal(t, 1, one[int](t, tx, "SELECT count(*) FROM accounts"))
		require.NoError(t, db.update(ctx, add(ctx, 50)))
		run(t, tx, "UPDATE fencepost_marks SET number = number + 1, holder = 'c'")
		return add(t.Context(), 10)(tx)
	}))
	require.Equal(t, 130, balance(t, db), "the twin must lose the older one's write")
}

func TestSQLiteMintTxThatWasOvertakenIsRetryable(t *testing.T) {
	t.Parallel()
	db := newSQLite(t)
	db.claim(t, tok(33, "a"))
	older := holding(t, 33, "a")
	require.ErrorIs(t, inTx(t, db, func(tx *sql.Tx) error {
		require.Equal(t, 100, balance(t, tx))
		require.NoError(t, db.update(older, add(older, 50)))
		_, err := db.guard().MintTx(t.Context(), tx, account, "b")
		return err
	}), guard.ErrRetryable)
	require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, db.mark(t, account))
	require.Equal(t, 150, balance(t, db))
}

func TestMintTxOnATransactionThatIsOver(t *testing.T) {
	t.Parallel()
	onMintTx(t, func(t *testing.T, db *database) {
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		_, err = db.guard().MintTx(t.Context(), tx, account, "a")
		require.ErrorIs(t, err, sql.ErrTxDone)
		gone, leave := context.WithCancel(t.Context())
		leave()
		require.Error(t, inTx(t, db, func(tx *sql.Tx) error {
			_, err := db.guard().MintTx(gone, tx, account, "a")
			require.ErrorIs(t, err, context.Canceled)
			return write(t.Context(), tx, 0)
		}))
		require.Zero(t, db.mark(t, account))
		require.Equal(t, 100, balance(t, db))
	})
}
