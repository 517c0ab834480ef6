package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBypass(t *testing.T) {
	t.Parallel()
	const bypass = "SELECT fence.bypass('fence.accounts', 'wrong currency')"
	for name, c := range map[string]struct {
		texts   []string
		refused bool
	}{
		"lets every write in":                       {[]string{bypass, write42, "DELETE FROM fence.accounts", "TRUNCATE fence.accounts", "INSERT INTO fence.accounts VALUES (42, ''), (43, '')"}, false},
		"but for one table":                         {[]string{bypass, write42, "INSERT INTO fence.others VALUES (1)"}, true},
		"another's beside it":                       {[]string{bypass, "SELECT fence.bypass('fence.others', 'too')", write42, "INSERT INTO fence.others VALUES (1)"}, false},
		"ends with its transaction":                 {[]string{bypass, "COMMIT", "BEGIN", write42}, true},
		"ends with its savepoint":                   {[]string{"SAVEPOINT a", bypass, write42, "ROLLBACK TO a", write42}, true},
		"stays with a savepoint that is released":   {[]string{"SAVEPOINT a", bypass, "RELEASE a", write42}, false},
		"ends with a block of PL/pgSQL that failed": {[]string{"DO $$ BEGIN PERFORM fence.bypass('fence.accounts', 'x'); RAISE 'x'; EXCEPTION WHEN OTHERS THEN END $$", write42}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newAccounts(t) // or TRUNCATE and the others wait for each other
			run(t, f, f, "CREATE TABLE fence.others (id int); SELECT fence.protect('fence.others', '''other''')")
			conn := f.conn(t)
			run(t, f, conn, "BEGIN")
			last := len(c.texts) - 1
			for _, text := range c.texts[:last] {
				run(t, f, conn, text)
			}
			err := f.exec(t.Context(), conn, c.texts[last])
			run(t, f, conn, "ROLLBACK")
			if c.refused {
				unguarded(t, err)
				return
			}
			require.NoError(t, err)
		})
	}
}

func TestBypassIsInTheLog(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	run(t, f, f, "SELECT fence.protect('fence.accounts', $$'account/' || id$$, 'observe')")
	conn, heard := listening(t)
	run(t, f, conn, "BEGIN; SELECT fence.bypass('fence.accounts', 'JIRA-7: wrong currency'); "+write42+"; COMMIT")
	require.Len(t, *heard, 1, "and what it lets in is not reported again")
	require.Equal(t, "LOG", (*heard)[0].SeverityUnlocalized)
	require.Equal(t, "fencepost: "+get[string](t, f, conn, "SELECT session_user::text")+" bypasses the protection of table "+f.schema+".accounts: JIRA-7: wrong currency", (*heard)[0].Message)
}

// Alone it is over before the write that it was for.
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

func TestBypassOfPartitions(t *testing.T) {
	t.Parallel()
	f := newPartitions(t)
	tx := f.begin(t, "")
	run(t, f, tx, "SELECT fence.bypass('fence.jobs', 'x'); UPDATE fence.jobs SET n = 1; TRUNCATE fence.jobs; ROLLBACK; BEGIN")
	run(t, f, tx, "SELECT fence.bypass('fence.west', 'x'); UPDATE fence.west SET n = 1; UPDATE fence.west1 SET n = 1")
	unguarded(t, f.exec(t.Context(), tx, "UPDATE fence.jobs SET n = 1"))
	require.NoError(t, tx.Rollback(t.Context()))
}

func TestBypassThatIsRefused(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	for _, reason := range []any{"", " \t\n", nil} {
		err := f.exec(t.Context(), f, "SELECT fence.bypass('fence.accounts', $1)", reason)
		require.Equal(t, "22023", code(err))
		require.ErrorContains(t, err, "fencepost: bypass: a reason is required")
	}
	err := f.exec(t.Context(), f, "SELECT fence.bypass('fence.plain', 'x')")
	require.Equal(t, "55000", code(err))
	require.ErrorContains(t, err, f.schema+".plain is not protected")
}

// It protects from forgetting, and not from enemies: the setting is anybody's.
func TestAdmissionCanBeForged(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	tx := f.begin(t, "")
	run(t, f, tx, "SELECT set_config('fencepost.admitted', E'\\n"+f.schema+"/account/42\\n', true)")
	run(t, f, tx, write42)
	require.NoError(t, tx.Rollback(t.Context()))
}
