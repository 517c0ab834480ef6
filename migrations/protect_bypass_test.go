package migrations_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
)

func TestBypassIsInTheLog(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	run(t, f, f, "SELECT fence.protect('fence.accounts', $$'account/' || id$$, 'report-only')")
	conn, heard := listening(t)
	run(t, f, conn, "BEGIN; SELECT fence.bypass('fence.accounts', 'JIRA-7: wrong currency'); "+write42+"; COMMIT")
	require.Len(t, *heard, 1, "and what it lets in is not reported again")
	require.Equal(t, "LOG", (*heard)[0].SeverityUnlocalized)
	require.Equal(t, "fencepost: "+get[string](t, f, conn, "SELECT session_user::text")+" bypasses the protection of table "+f.schema+".accounts: JIRA-7: wrong currency", (*heard)[0].Message)
}

// Outside a transaction it ends before the write.
func TestBypassOutsideOfATransaction(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	conn, heard := listening(t)
	run(t, f, f, "CREATE FUNCTION fence.mend() RETURNS void LANGUAGE sql AS $$ SELECT fence.bypass('fence.accounts', 'x'); "+write42+" $$")
	const bypass = "SELECT fence.bypass('fence.accounts', 'x')"
	for name, c := range map[string]struct {
		texts  []string
		warned bool
	}{
		"by itself":                             {[]string{bypass + ";\n"}, true},
		"in a transaction":                      {[]string{"BEGIN", bypass, "COMMIT"}, false},
		"in one packet with the write":          {[]string{bypass + "; " + write42}, false},
		"in a block of PL/pgSQL":                {[]string{"DO $$ BEGIN PERFORM fence.bypass('fence.accounts', 'x'); " + write42 + "; END $$"}, false},
		"in a function that writes":             {[]string{"SELECT fence.mend()"}, false},
		"behind a savepoint of the transaction": {[]string{"BEGIN", "SAVEPOINT a", bypass, "ROLLBACK"}, false},
	} {
		*heard = nil
		for _, text := range c.texts {
			run(t, f, conn, text)
		}
		if !c.warned {
			require.Len(t, *heard, 1, name)
			require.Equal(t, "LOG", (*heard)[0].SeverityUnlocalized, name)
			continue
		}
		require.Len(t, *heard, 2, name)
		require.Equal(t, []string{"WARNING", "25P01"}, []string{(*heard)[0].SeverityUnlocalized, (*heard)[0].Code})
		require.Equal(t, "fencepost: bypass: that of "+f.schema+".accounts ends with this statement", (*heard)[0].Message)
		require.Equal(t, "Call it in a transaction: BEGIN first.", (*heard)[0].Hint)
		unguarded(t, f.exec(t.Context(), conn, write42))
	}
}

// holes returns the gaps that protected reports for all tables.
func (f fence) holes(t *testing.T, on db) []string {
	t.Helper()
	return get[[]string](t, f, on, "SELECT coalesce(array_agg(i ORDER BY i), '{}') FROM fence.protected(), unnest(incomplete) i")
}

// traces returns the objects that protections have left in the schema.
func (f fence) traces(t *testing.T) []string {
	t.Helper()
	return get[[]string](t, f, f, `SELECT array(
		SELECT tgname::text FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid WHERE relnamespace = rtrim('fence.', '.')::regnamespace AND NOT tgisinternal
		UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = rtrim('fence.', '.')::regnamespace AND prorettype = 'trigger'::regtype
		UNION ALL SELECT relname FROM pg_class WHERE relnamespace = rtrim('fence.', '.')::regnamespace AND relkind = 'v'
		ORDER BY 1)`)
}

func TestProtectedListsWhatIs(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	f.protect(t, "fence.plain", "'plain/'\n|| id -- its key")
	run(t, f, f, "SELECT fence.protect('fence.plain', $1, 'report-only')", "'plain/'\n|| id -- \"its\" key")
	require.Equal(t, strings.ReplaceAll("fence.accounts 'account/' || id enforce {}; fence.plain 'plain/'\n|| id -- \"its\" key report-only {}", "fence.", f.schema+"."), get[string](t, f, f,
		"SELECT string_agg(concat_ws(' ', tab::regclass, resource, mode, incomplete), '; ' ORDER BY tab::text) FROM fence.protected()"))
}

func TestProtectedListsHoles(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	run(t, f, f, "CREATE FUNCTION fence.other() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
	for name, c := range map[string]struct{ change, hole string }{
		"a trigger that was disabled":            {"ALTER TABLE fence.accounts DISABLE TRIGGER zz_fencepost_row", "fence.accounts: trigger zz_fencepost_row is disabled"},
		"one that fires for replicas only":       {"ALTER TABLE fence.accounts ENABLE REPLICA TRIGGER zz_fencepost_truncate", "fence.accounts: trigger zz_fencepost_truncate is for replicas only"},
		"one that was dropped":                   {"DROP TRIGGER zz_fencepost_truncate ON fence.accounts", "fence.accounts: trigger zz_fencepost_truncate is missing"},
		"the one for rows, dropped":              {"DROP TRIGGER zz_fencepost_row ON fence.accounts", "fence.accounts: trigger zz_fencepost_row is missing"},
		"another that runs later":                {`CREATE TRIGGER "Zz" BEFORE INSERT ON fence.accounts FOR EACH ROW EXECUTE FUNCTION fence.other(); CREATE TRIGGER zzz BEFORE UPDATE ON fence.accounts FOR EACH ROW EXECUTE FUNCTION fence.other()`, "fence.accounts: trigger zzz runs after zz_fencepost_row and may change the row"},
		"a child that inherits":                  {"CREATE TABLE fence.child () INHERITS (fence.accounts)", "fence.child: inherits from fence.accounts and is not protected"},
		"none for one that fires always":         {"ALTER TABLE fence.accounts ENABLE ALWAYS TRIGGER zz_fencepost_row", ""},
		"none for a child with protection":       {"CREATE TABLE fence.child () INHERITS (fence.accounts); SELECT fence.protect('fence.child', '''x''')", ""},
		"none for a trigger that changes no row": {"CREATE TRIGGER zzz AFTER INSERT ON fence.accounts FOR EACH ROW EXECUTE FUNCTION fence.other(); CREATE TRIGGER zzzz BEFORE DELETE ON fence.accounts FOR EACH ROW EXECUTE FUNCTION fence.other()", ""},
	} {
		t.Run(name, func(t *testing.T) {
			tx := f.begin(t, "")
			run(t, f, tx, c.change)
			if c.hole == "" {
				require.Empty(t, f.holes(t, tx))
				return
			}
			require.Equal(t, []string{strings.ReplaceAll(c.hole, "fence.", f.schema+".")}, f.holes(t, tx))
		})
	}
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
		require.Empty(t, f.holes(t, f))
		require.ElementsMatch(t, before, f.traces(t), damage)
	}
	run(t, f, f, "DROP TRIGGER zz_fencepost_row ON fence.accounts")
	require.True(t, get[bool](t, f, f, "SELECT fence.unprotect('fence.accounts')"))
	require.Empty(t, f.traces(t))
}

func TestRightsOfProtect(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	ctx := t.Context()
	conn := asRole(t, f, "GRANT USAGE ON SCHEMA "+f.schema)
	app := f.named("fence.app")
	run(t, f, f, "CREATE SCHEMA "+app)
	f.atEnd(t, "DROP SCHEMA "+app+" CASCADE")
	run(t, f, f, "CREATE TABLE "+app+".accounts (id int)")
	protect := "SELECT fence.protect('" + app + ".accounts', 'id::text')"
	refuse := func(text, says string) {
		t.Helper()
		err := f.exec(ctx, conn, text)
		require.Equal(t, "42501", code(err), text)
		require.ErrorContains(t, err, says)
	}
	run(t, f, f, f.named("GRANT USAGE ON SCHEMA fence.app TO fence.role; GRANT ALL ON fence.app.accounts TO fence.role"))
	refuse(protect, "fencepost: protect: must be owner of table "+app+".accounts")
	refuse("SELECT fence.unprotect('fence.accounts')", "fencepost: unprotect: must be owner of table "+f.schema+".accounts")
	refuse("SELECT fence.bypass('fence.accounts', 'x')", "fencepost: bypass: must be owner of table "+f.schema+".accounts")
	run(t, f, f, f.named("ALTER TABLE fence.app.accounts OWNER TO fence.role"))
	refuse(protect, "fencepost: protect: no CREATE on schema "+app)
	run(t, f, f, f.named("GRANT CREATE ON SCHEMA fence.app TO fence.role"))
	run(t, f, conn, protect)
	run(t, f, conn, "SELECT fence.bypass('"+app+".accounts', 'x'), fence.unprotect('"+app+".accounts')")

	run(t, f, f, protect) // by a superuser, for the owner
	run(t, f, conn, "SELECT fence.protect('"+app+".accounts', '''x''', 'report-only')")
	require.Equal(t, 2, get[int](t, f, conn, "SELECT count(*) FROM fence.protected()"), "every role may list the protected tables")
	require.True(t, get[bool](t, f, conn, "SELECT fence.unprotect('"+app+".accounts')"))
}

// A writer without the guard may have no rights on the schema at all.
func TestWriterWithoutRightsIsRefusedAsEverybody(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	conn := asRole(t, f, "")
	app := f.named("fence.app")
	run(t, f, f, "CREATE SCHEMA "+app)
	f.atEnd(t, "DROP SCHEMA "+app+" CASCADE")
	run(t, f, f, f.named("CREATE TABLE fence.app.accounts (id int); GRANT USAGE ON SCHEMA fence.app TO fence.role; GRANT ALL ON fence.app.accounts TO fence.role"))
	f.protect(t, app+".accounts", account)
	for _, write := range []string{"INSERT INTO " + app + ".accounts VALUES (42)", "TRUNCATE " + app + ".accounts"} {
		unguarded(t, f.exec(t.Context(), conn, write))
	}
	require.Equal(t, "42501", code(f.exec(t.Context(), conn, "SELECT fence.protect('"+app+".accounts', 'x')")))
}

func TestCallsThatAreRefused(t *testing.T) {
	t.Parallel()
	f, other := newAccounts(t), newFence(t)
	conn := f.conn(t)
	run(t, f, conn, "CREATE VIEW fence.view AS SELECT FROM fence.accounts; CREATE MATERIALIZED VIEW fence.matview AS SELECT 1 AS id; CREATE TEMP TABLE temporary (id int); CREATE INDEX accounts_i ON fence.accounts (id)")
	type refusal struct{ code, says string }
	kind, mode, reason := refusal{"42809", "is no permanent table"}, refusal{"22023", "is neither enforce nor report-only"}, refusal{"22023", "fencepost: bypass: a reason is required"}
	unknown, foreign := refusal{"42P01", "there is no such table"}, refusal{"55006", f.schema + ".accounts is protected by schema " + f.schema}
	for call, want := range map[string]refusal{
		"fence.protect(NULL, 'x')": unknown, "fence.unprotect(NULL)": unknown, "fence.bypass(NULL, 'x')": unknown,
		"fence.protect('fence.view', 'x')": kind, "fence.protect('fence.matview', 'x')": kind, "fence.protect('temporary', 'x')": kind,
		"fence.protect('fence.accounts_i', 'x')": kind, "fence.protect('fence.nothing', 'x')": {"42P01", "does not exist"},
		"fence.protect('fence.plain', 'writer', 'off')": mode, "fence.protect('fence.plain', 'writer', '')": mode,
		"fence.protect('fence.plain', 'writer', 'ENFORCE')": mode, "fence.protect('fence.plain', 'writer', NULL)": mode,
		"fence.bypass('fence.accounts', '')": reason, `fence.bypass('fence.accounts', E' \t\n')`: reason, "fence.bypass('fence.accounts', NULL)": reason,
		"fence.bypass('fence.plain', 'x')":     {"55000", f.schema + ".plain is not protected"},
		"other.protect('fence.accounts', 'x')": foreign, "other.unprotect('fence.accounts')": foreign, "other.bypass('fence.accounts', 'x')": foreign,
	} {
		err := f.exec(t.Context(), conn, "SELECT "+strings.Replace(call, "other.", other.sql("fence."), 1))
		require.Equal(t, want.code, code(err), "%s: %v", call, err)
		require.ErrorContains(t, err, want.says, call)
	}
	require.False(t, get[bool](t, f, conn, "SELECT fence.unprotect('fence.plain')"), "nothing to take off")
	require.Zero(t, get[int](t, other, f, "SELECT count(*) FROM fence.protected()"))
	require.Equal(t, 1, get[int](t, f, f, "SELECT count(*) FROM fence.protected()"))
}

// listening returns a connection that records notices from LOG on. At these levels the
// client gets what the server's log gets.
func listening(t *testing.T) (conn *pgx.Conn, heard *[]*pgconn.Notice) {
	t.Helper()
	heard = new([]*pgconn.Notice)
	return connected(t, func(config *pgx.ConnConfig) {
		config.RuntimeParams["client_min_messages"] = "log"
		config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { *heard = append(*heard, n) }
	}), heard
}

func TestProtectedTableThatReportsOnly(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	run(t, f, f, "CREATE TABLE fence.others (id int); SELECT fence.protect('fence.others', '''other''', 'report-only'), fence.protect('fence.accounts', $$'account/' || id$$, 'report-only')")
	conn, heard := listening(t)
	for range 2 {
		*heard = nil
		run(t, f, conn, "BEGIN")
		run(t, f, conn, "UPDATE fence.accounts SET writer = 'x'")
		run(t, f, conn, "DELETE FROM fence.accounts WHERE id = 43; INSERT INTO fence.accounts VALUES (43, ''); TRUNCATE fence.others")
		run(t, f, conn, "COMMIT")
		require.Len(t, *heard, 2, "one for each transaction and table")
		first, second := (*heard)[0], (*heard)[1]
		require.Equal(t, "WARNING", first.SeverityUnlocalized)
		require.Equal(t, "ZF003", first.Code)
		require.Equal(t, "fencepost: unguarded UPDATE of protected table "+f.schema+".accounts, report-only", first.Message)
		require.Contains(t, first.Detail, "Table "+f.schema+".accounts, resource account/42, role ")
		require.Equal(t, "fencepost: unguarded TRUNCATE of protected table "+f.schema+".others, report-only", second.Message)
	}
	*heard = nil
	run(t, f, conn, "SELECT fence.admit('account/42', 5, 'a')")
	run(t, f, conn, "BEGIN; SELECT fence.admit('account/42', 5, 'a'); UPDATE fence.accounts SET writer = 'y' WHERE id = 42; COMMIT")
	require.Empty(t, *heard, "what is guarded is not reported")
	require.Equal(t, "42 y, 43 ", get[string](t, f, f, "SELECT string_agg(id || ' ' || writer, ', ' ORDER BY id) FROM fence.accounts"))

	var level string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT boot_val FROM pg_settings WHERE name = 'log_min_messages'").Scan(&level))
	require.Equal(t, "warning", level, "so the log has it by default")
}

// A change from report-only to enforce blocks no writer. All sessions see it at their
// next statement, also inside a transaction.
func TestProtectAgainLocksNobodyOut(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	run(t, f, f, "SELECT fence.protect('fence.accounts', $$'account/' || id$$, 'report-only')")
	writer := f.begin(t, pgx.ReadCommitted)
	run(t, f, writer, write42)
	run(t, f, f, "SET lock_timeout = '2min'; SELECT fence.protect('fence.accounts', $$'account/' || id$$); RESET lock_timeout")
	unguarded(t, f.exec(t.Context(), writer, write42))
	require.NoError(t, writer.Rollback(t.Context()))
}

func TestProtectAtOnce(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	var waits []func() error
	for range 8 {
		waits = append(waits, pgtest.Later(t, func() error {
			return f.exec(t.Context(), f, "SELECT fence.protect('fence.plain', $$'plain/' || id$$, wait => 600000), fence.protect('fence.accounts', 'writer', wait => 600000)")
		}))
	}
	for _, wait := range waits {
		require.NoError(t, wait())
	}
	require.Empty(t, f.holes(t, f))
	require.Equal(t, 2, get[int](t, f, f, "SELECT count(*) FROM fence.protected()"))
}
