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
			require.NoError(t, f.exec(t.Context(), twin, strings.ReplaceAll(write, "accounts", "plain")), "the twin: the unguarded write is applied")
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

func TestCopyIntoAProtectedTable(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	copied := func(tx pgx.Tx, tab string) error {
		_, err := tx.Conn().PgConn().CopyFrom(t.Context(), strings.NewReader("44\tx\n45\ty\n"), f.sql("COPY "+tab+" FROM STDIN"))
		return err
	}
	for name, c := range map[string]struct {
		tab      string
		admitted []string
		lacking  string
	}{
		"is refused":                              {"fence.accounts", nil, "account/44"},
		"is refused for its last row":             {"fence.accounts", []string{"account/44"}, "account/45"},
		"is let in for what was admitted":         {"fence.accounts", []string{"account/44", "account/45"}, ""},
		"the twin: an unprotected table takes it": {"fence.plain", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tx := f.begin(t, pgx.ReadCommitted)
			for _, resource := range c.admitted {
				require.NoError(t, f.admit(t.Context(), tx, resource, 5, "a"))
			}
			err := copied(tx, c.tab)
			require.NoError(t, tx.Rollback(t.Context()))
			if c.lacking == "" {
				require.NoError(t, err)
				return
			}
			require.Contains(t, unguarded(t, err).Detail, "resource "+c.lacking+":")
		})
	}
}

func TestForeignKeysOfAProtectedTable(t *testing.T) {
	t.Parallel()
	for action, after := range map[string]string{"CASCADE": "", "SET NULL": "42 -"} {
		t.Run("a cascade ON DELETE "+action+" writes the child, and is refused unless it was admitted", func(t *testing.T) {
			t.Parallel()
			f := newAccounts(t)
			run(t, f, f, "CREATE TABLE fence.owners (id int PRIMARY KEY); INSERT INTO fence.owners VALUES (1)")
			run(t, f, f, "ALTER TABLE fence.accounts ADD owner int REFERENCES fence.owners ON DELETE "+action)
			require.NoError(t, f.guarded(t, "DELETE FROM fence.accounts WHERE id = 43; UPDATE fence.accounts SET owner = 1", "account/42", "account/43"))

			const leave = "DELETE FROM fence.owners WHERE id = 1"
			got := unguarded(t, f.exec(t.Context(), f, leave))
			require.Contains(t, got.Detail, "resource account/42:")
			require.Equal(t, 1, get[int](t, f, f, "SELECT count(*) FROM fence.owners"), "the parent stays")
			require.NoError(t, f.guarded(t, leave, "account/42"))
			require.Equal(t, after, get[string](t, f, f, "SELECT coalesce(string_agg(id || ' ' || coalesce(owner::text, '-'), '' ORDER BY id), '') FROM fence.accounts"))
		})
	}
}

func TestProtectedTableWrittenByFunctions(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	run(t, f, f, `CREATE FUNCTION fence.pay() RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = '' AS $$ `+write42+` $$;
		CREATE FUNCTION fence.admit_and_pay() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS
		$$ BEGIN PERFORM fence.admit('account/42', 5, 'a'); PERFORM fence.pay(); END $$`)
	unguarded(t, f.exec(t.Context(), f, "SELECT fence.pay()"))
	require.NoError(t, f.guarded(t, "SELECT fence.pay()", "account/42"))
	run(t, f, f, "SELECT fence.admit_and_pay()")
}

// Under every search_path, the trigger and the expression call the functions that they
// called when the table was protected.
func TestProtectedTableUnderAnySearchPath(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	run(t, f, f, `CREATE FUNCTION fence.slug(n bigint) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT 'slug-' || n $$;
		CREATE FUNCTION fence.lower(text) RETURNS text LANGUAGE sql AS $$ SELECT 'account/nonsense' $$;
		CREATE FUNCTION fence.strpos(text, text) RETURNS int LANGUAGE sql AS $$ SELECT 1 $$`)
	f.protect(t, "fence.accounts", f.sql("lower('ACCOUNT/') || fence.slug(id)"))
	for _, path := range []string{"''", `'` + f.schema + `'`, "pg_catalog", `pg_catalog, '` + f.schema + `'`} {
		tx := f.begin(t, pgx.ReadCommitted)
		run(t, f, tx, "SET LOCAL search_path = "+path)
		run(t, f, tx, "SAVEPOINT a")
		require.Contains(t, unguarded(t, f.exec(t.Context(), tx, write42)).Detail, "resource account/slug-42:", path)
		run(t, f, tx, "ROLLBACK TO a")
		require.NoError(t, f.admit(t.Context(), tx, "account/slug-42", 5, "a"))
		run(t, f, tx, write42)
		require.NoError(t, tx.Rollback(t.Context()))
	}
}

// The trigger checks the row as other triggers left it.
func TestProtectedTableSeesTheRowAsItWillBe(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	run(t, f, f, `CREATE FUNCTION fence.other() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id := NEW.id + 100; RETURN NEW; END $$;
		CREATE TRIGGER z BEFORE INSERT ON fence.accounts FOR EACH ROW EXECUTE FUNCTION fence.other();
		CREATE TRIGGER z BEFORE INSERT ON fence.plain FOR EACH ROW EXECUTE FUNCTION fence.other()`)
	const insert = "INSERT INTO fence.accounts VALUES (44, 'x')"
	require.Contains(t, unguarded(t, f.guarded(t, insert, "account/44")).Detail, "resource account/144:")
	require.NoError(t, f.guarded(t, insert, "account/144"))
}

func TestProtectedTableJudgesRowsThatAreTouched(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	unguarded(t, f.exec(t.Context(), f, "INSERT INTO fence.accounts VALUES (42, '') ON CONFLICT DO NOTHING"))
	run(t, f, f, "UPDATE fence.accounts SET writer = 'x' WHERE id = 7; DELETE FROM fence.accounts WHERE id = 7; SELECT FROM fence.accounts FOR UPDATE")
}

const write42 = "UPDATE fence.accounts SET writer = 'x' WHERE id = 42"

// hazard G24
func TestAdmissionForAProtectedTableEnds(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	ctx := t.Context()
	require.NoError(t, f.admit(ctx, f, "account/42", 5, "a"))
	const admit = "SELECT fence.admit('account/42', 5, 'a')"
	for name, c := range map[string]struct {
		texts   []string
		refused bool
	}{
		"with its transaction, though the session goes on":   {[]string{admit, "COMMIT", "BEGIN"}, true},
		"also where it is rolled back":                       {[]string{admit, "ROLLBACK", "BEGIN"}, true},
		"with its savepoint that is rolled back":             {[]string{"SAVEPOINT a", admit, "ROLLBACK TO a"}, true},
		"with the one around it":                             {[]string{"SAVEPOINT a", "SAVEPOINT b", admit, "RELEASE b", "ROLLBACK TO a"}, true},
		"with the block of PL/pgSQL whose EXCEPTION ran":     {[]string{"DO $$ BEGIN PERFORM fence.admit('account/42', 5, 'a'); RAISE 'x'; EXCEPTION WHEN OTHERS THEN END $$"}, true},
		"not with its savepoint that is released":            {[]string{"SAVEPOINT a", admit, "RELEASE a"}, false},
		"not with a later savepoint that is rolled back":     {[]string{admit, "SAVEPOINT a", "ROLLBACK TO a"}, false},
		"nor is one lost that was made again inside it":      {[]string{admit, "SAVEPOINT a", admit, "ROLLBACK TO a"}, false},
		"not with a block of PL/pgSQL that went well":        {[]string{"DO $$ BEGIN PERFORM fence.admit('account/42', 5, 'a'); EXCEPTION WHEN OTHERS THEN END $$"}, false},
		"not where the session's settings are reset to none": {[]string{admit, "SELECT set_config('search_path', '', true)"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := f.conn(t)
			for _, text := range append([]string{"BEGIN"}, c.texts...) {
				run(t, f, conn, text)
			}
			err := f.exec(t.Context(), conn, write42)
			if c.refused {
				unguarded(t, err)
			} else {
				require.NoError(t, err)
			}
			run(t, f, conn, "ROLLBACK")
		})
	}
}

func TestProtectedTableUnderEveryIsolation(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	ctx := t.Context()
	require.NoError(t, f.admit(ctx, f, "account/42", 5, "a"))
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		tx := f.begin(t, level)
		run(t, f, tx, "SAVEPOINT a")
		unguarded(t, f.exec(ctx, tx, write42))
		run(t, f, tx, "ROLLBACK TO a")
		require.NoError(t, f.admit(ctx, tx, "account/42", 5, "a"))
		run(t, f, tx, write42)
		require.NoError(t, tx.Commit(ctx))
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

	for _, call := range []string{"protect($1, 'x')", "unprotect($1)", "bypass($1, 'x')"} {
		err := f.exec(t.Context(), f, `SELECT "`+other.schema+`".`+call, f.schema+".accounts")
		require.Equal(t, "55006", code(err), call)
		require.ErrorContains(t, err, f.schema+".accounts is protected by schema "+f.schema)
	}
	require.Zero(t, get[int](t, other, f, "SELECT count(*) FROM fence.protected()"))
	require.Equal(t, 1, get[int](t, f, f, "SELECT count(*) FROM fence.protected()"))
}
