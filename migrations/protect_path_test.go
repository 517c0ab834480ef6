package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// The writer's search_path begins with a schema that has what the trigger and
// its expression call under the same names, and with a || that fits text and
// bigint better than PostgreSQL's own: that is preferred wherever it stands in
// the path. Each gives itself away.
func TestProtectedTableFindsNothingInTheWritersPath(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	f.protect(t, "fence.accounts", "lower('ACCOUNT/') || id")
	run(t, f, f, "SELECT fence.protect('fence.plain', $$lower('ACCOUNT/') || id$$, 'observe')")
	shadow := f.named("fence.shadow")
	run(t, f, f, "CREATE SCHEMA "+shadow)
	f.atEnd(t, "DROP SCHEMA "+shadow+" CASCADE")
	run(t, f, f, f.named(`
		CREATE FUNCTION fence.shadow.lower(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
		CREATE FUNCTION fence.shadow.strpos(text, text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
		CREATE FUNCTION fence.shadow.current_setting(text, boolean) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
		CREATE FUNCTION fence.shadow.joined(text, bigint) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
		CREATE FUNCTION fence.shadow.joined(text, oid) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
		CREATE FUNCTION fence.shadow.joined(text, text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
		CREATE FUNCTION fence.shadow.equal(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
		CREATE FUNCTION fence.shadow.greater(int, int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
		CREATE OPERATOR fence.shadow.|| (LEFTARG = text, RIGHTARG = bigint, FUNCTION = fence.shadow.joined);
		CREATE OPERATOR fence.shadow.|| (LEFTARG = text, RIGHTARG = oid, FUNCTION = fence.shadow.joined);
		CREATE OPERATOR fence.shadow.|| (LEFTARG = text, RIGHTARG = text, FUNCTION = fence.shadow.joined);
		CREATE OPERATOR fence.shadow.= (LEFTARG = text, RIGHTARG = text, FUNCTION = fence.shadow.equal);
		CREATE OPERATOR fence.shadow.> (LEFTARG = int, RIGHTARG = int, FUNCTION = fence.shadow.greater);
		CREATE DOMAIN fence.shadow.text AS pg_catalog.text CHECK (false);
		CREATE COLLATION fence.shadow."C" (provider = icu, locale = 'und', deterministic = false)`))
	for _, path := range []string{shadow, shadow + ", pg_catalog"} {
		tx := f.begin(t, pgx.ReadCommitted)
		for _, text := range []string{write42, "INSERT INTO fence.accounts VALUES (44, '')", "DELETE FROM fence.accounts WHERE id = 42", "TRUNCATE fence.accounts"} {
			run(t, f, tx, "SAVEPOINT a; SET LOCAL search_path = "+path)
			unguarded(t, f.exec(t.Context(), tx, text))
			run(t, f, tx, "ROLLBACK TO a")
		}
		require.NoError(t, f.admit(t.Context(), tx, "account/42", 5, "a"))
		require.NoError(t, f.admit(t.Context(), tx, "account/43", 5, "a"))
		run(t, f, tx, "SET LOCAL search_path = "+path)
		run(t, f, tx, write42+"; UPDATE fence.plain SET writer = 'x'; DELETE FROM fence.accounts WHERE id OPERATOR(pg_catalog.=) 43; INSERT INTO fence.accounts VALUES (43, '')")
		require.Equal(t, path, get[string](t, f, tx, "SHOW search_path"))
		require.NoError(t, tx.Rollback(t.Context()))

		twin := f.begin(t, pgx.ReadCommitted)
		run(t, f, twin, "ALTER FUNCTION fence.fencepost_accounts RESET search_path; SET LOCAL search_path = "+path)
		require.ErrorContains(t, f.exec(t.Context(), twin, write42), "hijacked", "the twin has the writer's path")
		require.NoError(t, twin.Rollback(t.Context()))
	}
}
