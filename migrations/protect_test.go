package migrations_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// account is the expression that most tests protect with.
const account = "'account/' || id"

// newAccounts is a fence with a protected table that has the accounts 42 and
// 43, and with one of the same contents, plain, that is not protected.
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

// run is exec of what must succeed.
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

// ended leaves out what only says that there was an error before.
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

// hazard G15
func TestProtectedTable(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	writes := map[string]string{
		"insert":                "INSERT INTO fence.accounts VALUES (44, 'x')",
		"update":                "UPDATE fence.accounts SET writer = 'x' WHERE id = 42",
		"delete":                "DELETE FROM fence.accounts WHERE id = 42",
		"truncate":              "TRUNCATE fence.accounts",
		"upsert":                "INSERT INTO fence.accounts VALUES (42, 'x') ON CONFLICT (id) DO UPDATE SET writer = excluded.writer",
		"insert from a query":   "INSERT INTO fence.accounts SELECT id + 10, 'x' FROM fence.plain",
		"update in a CTE":       "WITH w AS (UPDATE fence.accounts SET writer = 'x' RETURNING id) SELECT FROM w",
		"update of many, one a": "UPDATE fence.accounts SET writer = 'x'",
		"merge": `MERGE INTO fence.accounts a USING fence.plain p ON a.id = p.id AND p.id = 42
			WHEN MATCHED THEN UPDATE SET writer = 'x' WHEN NOT MATCHED THEN INSERT VALUES (p.id + 10, 'x')`,
	}
	all := []string{"account/42", "account/43", "account/44", "account/52", "account/53"}
	for name, write := range writes {
		t.Run("refuses an unguarded "+name, func(t *testing.T) {
			t.Parallel()
			unguarded(t, f.exec(t.Context(), f, write))
			twin := f.begin(t, "")
			require.NoError(t, f.exec(t.Context(), twin, strings.ReplaceAll(write, "accounts", "plain")), "the twin: the forgotten write goes through")
			require.NoError(t, twin.Rollback(t.Context()))
		})
		t.Run("lets a guarded "+name+" in", func(t *testing.T) {
			t.Parallel()
			tx := f.begin(t, pgx.ReadCommitted)
			for _, resource := range all {
				require.NoError(t, f.admit(t.Context(), tx, resource, 5, "a"))
			}
			err := f.exec(t.Context(), tx, write)
			require.NoError(t, tx.Rollback(t.Context()))
			if name == "truncate" {
				unguarded(t, err)
				return
			}
			require.NoError(t, err)
		})
	}
	require.Equal(t, "42 , 43 ", get[string](t, f, f, "SELECT string_agg(id || ' ' || writer, ', ' ORDER BY id) FROM fence.accounts"))
}

func TestProtectedTableAsksForTheRowsOwnResource(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	for name, c := range map[string]struct {
		write    string
		admitted []string
		lacking  string
	}{
		"another resource does not do":                      {"UPDATE fence.accounts SET writer = 'x' WHERE id = 42", []string{"account/43"}, "account/42"},
		"nor one that it begins with":                       {"UPDATE fence.accounts SET writer = 'x' WHERE id = 42", []string{"account/421"}, "account/42"},
		"nor one that ends with it":                         {"UPDATE fence.accounts SET writer = 'x' WHERE id = 42", []string{"my/account/42"}, "account/42"},
		"nor its prefix":                                    {"UPDATE fence.accounts SET writer = 'x' WHERE id = 42", []string{"account/4"}, "account/42"},
		"all rows must have been admitted for":              {"UPDATE fence.accounts SET writer = 'x'", []string{"account/42"}, "account/43"},
		"a row that changes its resource needs the new one": {"UPDATE fence.accounts SET id = 44 WHERE id = 42", []string{"account/42"}, "account/44"},
		"and the old one":                                   {"UPDATE fence.accounts SET id = 44 WHERE id = 42", []string{"account/44"}, "account/42"},
		"and both will do": {"UPDATE fence.accounts SET id = 44 WHERE id = 42; UPDATE fence.accounts SET id = 42 WHERE id = 44",
			[]string{"account/42", "account/44"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := f.guarded(t, c.write, c.admitted...)
			if c.lacking == "" {
				require.NoError(t, err)
				return
			}
			require.Contains(t, unguarded(t, err).Detail, "resource "+c.lacking+":")
		})
	}
}

func TestRefusalOfAProtectedTable(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	tab := f.schema + ".accounts"
	for write, want := range map[string]pgconn.PgError{
		"UPDATE fence.accounts SET writer = 'x'": {
			Message: "fencepost: unguarded UPDATE of protected table " + tab,
			Detail:  "Table " + tab + ", resource account/42: this transaction was not admitted for it, by schema " + f.schema + ".",
			Hint:    "Write through sqlguard: Update, On or Join for resource account/42 (a sqlguard.Table wants Protected).",
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
