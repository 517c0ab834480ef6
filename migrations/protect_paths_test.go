package migrations_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

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
			require.Equal(t, after, get[string](t, f, f, "SELECT coalesce(string_agg(id || ' ' || coalesce(owner::text, '-'), ''), '') FROM fence.accounts"))
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

// Whatever the search_path, the trigger's own functions, and those of the
// expression, are the ones that were meant when the table was protected.
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

// What other triggers make of the row is what counts.
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
