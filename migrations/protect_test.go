package migrations_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// account is the resource expression of most tests.
const account = "'account/' || id"

// newAccounts returns a fence with a protected table that has the accounts 42 and 43, and
// an unprotected copy of it, plain.
func newAccounts(t *testing.T) fence {
	t.Helper()
	f := newFence(t)
	run(t, f, f, `CREATE TABLE fence.accounts (id bigint PRIMARY KEY, writer text); INSERT INTO fence.accounts VALUES (42, ''), (43, '');
		CREATE TABLE fence.plain (id bigint PRIMARY KEY, writer text); INSERT INTO fence.plain VALUES (42, ''), (43, '')`)
	f.protect(t, "fence.accounts", account)
	return f
}

func (f fence) protect(t *testing.T, tab, resource string) {
	t.Helper()
	run(t, f, f, "SELECT fence.protect($1, $2)", f.sql(tab), resource)
}

// run executes a statement that must succeed.
func run(t *testing.T, f fence, on db, text string, args ...any) {
	t.Helper()
	require.NoError(t, f.exec(t.Context(), on, text, args...), text)
}

// guarded runs text in a transaction that was admitted for the resources.
func (f fence) guarded(t *testing.T, text string, resources ...string) error {
	t.Helper()
	tx := f.begin(t, pgx.ReadCommitted)
	for _, resource := range resources {
		require.NoError(t, f.admit(t.Context(), tx, resource, 5, "a"))
	}
	return errors.Join(f.exec(t.Context(), tx, text), ended(tx.Commit(t.Context())))
}

// ended returns nil for an error that only reports an earlier one.
func ended(err error) error {
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return nil
	}
	return err
}

// unguarded checks that err is the refusal of a protected table.
func unguarded(t *testing.T, err error) pgconn.PgError {
	t.Helper()
	var refusal *pgconn.PgError
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, "ZF003", refusal.Code, "%v", err)
	return *refusal
}

func TestRefusalOfAProtectedTable(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	tab := f.schema + ".accounts"
	for write, want := range map[string]pgconn.PgError{
		"UPDATE fence.accounts SET writer = 'x'": {
			Message: "fencepost: unguarded UPDATE of protected table " + tab,
			Detail:  "Table " + tab + ", resource account/42: this transaction was not admitted for it, by schema " + f.schema + ".",
			Hint:    "Write through sqlguard: Update, On or Join for resource account/42 (a rowguard.Table wants Protected).",
		},
		"INSERT INTO fence.free VALUES (NULL)": {
			Message: "fencepost: unguarded INSERT of protected table " + f.schema + ".free",
			Detail:  "Table " + f.schema + ".free: the row's resource is NULL.",
			Hint:    "Give the row what its resource is made of.",
		},
		"TRUNCATE fence.accounts": {
			Message: "fencepost: unguarded TRUNCATE of protected table " + tab,
			Detail:  "Table " + tab + ": a TRUNCATE has no resource.",
			Hint:    "Delete the rows, each under its token; or ask for a bypass by name.",
		},
	} {
		if strings.Contains(write, "free") {
			run(t, f, f, "CREATE TABLE fence.free (id bigint)")
			f.protect(t, "fence.free", account)
		}
		got := unguarded(t, f.exec(t.Context(), f, write))
		require.Equal(t, want.Message, got.Message)
		require.Equal(t, want.Detail, got.Detail)
		require.Equal(t, want.Hint, got.Hint)
		require.Equal(t, "ERROR", got.SeverityUnlocalized)
		require.Equal(t, f.schema, got.SchemaName)
		require.Contains(t, write, got.TableName)
	}
}

// The marks of another schema do not admit a write here.
func TestProtectedTableKnowsItsSchema(t *testing.T) {
	t.Parallel()
	f, other := newAccounts(t), newFence(t)
	tx := f.begin(t, pgx.ReadCommitted)
	require.NoError(t, other.admit(t.Context(), tx, "account/42", 5, "a"))
	unguarded(t, f.exec(t.Context(), tx, write42))
	require.NoError(t, tx.Rollback(t.Context()))
}
