package migrations_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// holes are what protected says of all tables.
func (f fence) holes(t *testing.T) []string {
	t.Helper()
	return get[[]string](t, f, f, "SELECT coalesce(array_agg(i ORDER BY i), '{}') FROM fence.protected(), unnest(incomplete) i")
}

// traces are what protections have left in the schema.
func (f fence) traces(t *testing.T) []string {
	t.Helper()
	return get[[]string](t, f, f, `SELECT array(
		SELECT tgname::text FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid WHERE relnamespace = rtrim('fence.', '.')::regnamespace AND NOT tgisinternal
		UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = rtrim('fence.', '.')::regnamespace AND prorettype = 'trigger'::regtype
		UNION ALL SELECT relname FROM pg_class WHERE relnamespace = rtrim('fence.', '.')::regnamespace AND relkind = 'v')`)
}

func TestProtectedListsWhatIs(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	f.protect(t, "fence.plain", "'plain/'\n|| id -- its key")
	run(t, f, f, "SELECT fence.protect('fence.plain', $1, 'observe')", "'plain/'\n|| id -- \"its\" key")
	require.Equal(t, strings.ReplaceAll("fence.accounts 'account/' || id enforce {}; fence.plain 'plain/'\n|| id -- \"its\" key observe {}", "fence.", f.schema+"."), get[string](t, f, f,
		"SELECT string_agg(concat_ws(' ', tab::regclass, resource, mode, incomplete), '; ' ORDER BY tab::text) FROM fence.protected()"))
}

func TestProtectedListsHoles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ change, hole string }{
		"a trigger that was disabled":            {"ALTER TABLE fence.accounts DISABLE TRIGGER zz_fencepost_row", "fence.accounts: trigger zz_fencepost_row is disabled"},
		"one that fires for replicas only":       {"ALTER TABLE fence.accounts ENABLE REPLICA TRIGGER zz_fencepost_truncate", "fence.accounts: trigger zz_fencepost_truncate is for replicas only"},
		"one that was dropped":                   {"DROP TRIGGER zz_fencepost_truncate ON fence.accounts", "fence.accounts: trigger zz_fencepost_truncate is missing"},
		"the one for rows, dropped":              {"DROP TRIGGER zz_fencepost_row ON fence.accounts", "fence.accounts: trigger zz_fencepost_row is missing"},
		"somebody's that runs later":             {`CREATE TRIGGER "Zz" BEFORE INSERT ON fence.accounts FOR EACH ROW EXECUTE FUNCTION fence.other(); CREATE TRIGGER zzz BEFORE UPDATE ON fence.accounts FOR EACH ROW EXECUTE FUNCTION fence.other()`, "fence.accounts: trigger zzz runs after zz_fencepost_row and may change the row"},
		"a child that inherits":                  {"CREATE TABLE fence.child () INHERITS (fence.accounts)", "fence.child: inherits from fence.accounts and is not protected"},
		"none for one that fires always":         {"ALTER TABLE fence.accounts ENABLE ALWAYS TRIGGER zz_fencepost_row", ""},
		"none for a child with protection":       {"CREATE TABLE fence.child () INHERITS (fence.accounts); SELECT fence.protect('fence.child', '''x''')", ""},
		"none for a trigger that changes no row": {"CREATE TRIGGER zzz AFTER INSERT ON fence.accounts FOR EACH ROW EXECUTE FUNCTION fence.other(); CREATE TRIGGER zzzz BEFORE DELETE ON fence.accounts FOR EACH ROW EXECUTE FUNCTION fence.other()", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newAccounts(t)
			run(t, f, f, "CREATE FUNCTION fence.other() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
			run(t, f, f, c.change)
			if c.hole == "" {
				require.Empty(t, f.holes(t))
				return
			}
			require.Equal(t, []string{strings.ReplaceAll(c.hole, "fence.", f.schema+".")}, f.holes(t))
		})
	}
}

// A hole is what it says: the forgotten write gets through it.
func TestHolesAreHoles(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	run(t, f, f, "CREATE TABLE fence.child () INHERITS (fence.accounts); INSERT INTO fence.child VALUES (50, '')")
	run(t, f, f, "UPDATE fence.accounts SET writer = 'x' WHERE id = 50")
	run(t, f, f, `CREATE FUNCTION fence.other() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.id := 42; RETURN NEW; END';
		CREATE TRIGGER zzz BEFORE UPDATE ON fence.accounts FOR EACH ROW EXECUTE FUNCTION fence.other()`)
	require.NoError(t, f.guarded(t, "DELETE FROM fence.accounts WHERE id = 42; UPDATE fence.accounts SET id = 43 WHERE id = 43", "account/42", "account/43"))
	run(t, f, f, "DROP TRIGGER zzz ON fence.accounts; ALTER TABLE fence.accounts DISABLE TRIGGER USER")
	run(t, f, f, write42)
	run(t, f, f, "TRUNCATE fence.accounts")
}

func TestProtectAgainMendsTheHoles(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	before := f.traces(t)
	for _, damage := range []string{
		"DROP TRIGGER zz_fencepost_row ON fence.accounts", "DROP TRIGGER zz_fencepost_truncate ON fence.accounts",
		"DROP TRIGGER zz_fencepost_row ON fence.accounts; DROP TRIGGER zz_fencepost_truncate ON fence.accounts",
		"DROP TABLE fence.accounts; CREATE TABLE fence.accounts (id bigint, writer text)",
	} {
		run(t, f, f, damage)
		f.protect(t, "fence.accounts", account)
		require.Empty(t, f.holes(t))
		require.ElementsMatch(t, before, f.traces(t), damage)
	}
	run(t, f, f, "DROP TRIGGER zz_fencepost_row ON fence.accounts")
	require.True(t, get[bool](t, f, f, "SELECT fence.unprotect('fence.accounts')"))
	require.Empty(t, f.traces(t))
}
