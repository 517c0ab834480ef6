package main

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
)

// A forged number raises both the marks table and the mark that the row carries. A reset
// of the marks table leaves the row's mark unchanged. The statement that reset prints
// then resets the row.
func TestMarksResetNamesTheRowsThatStayPoisoned(t *testing.T) {
	t.Parallel()
	m := newMarked(t)
	exec := func(text string) {
		t.Helper()
		_, err := m.pool.Exec(t.Context(), m.sql(text))
		require.NoError(t, err, text)
	}
	exec("CREATE TABLE fence.accounts (id bigint PRIMARY KEY, balance integer NOT NULL)")
	exec("SELECT fence.add_mark_columns('" + m.schema + ".accounts')")
	exec("INSERT INTO fence.accounts VALUES (42, 100)")
	exec("SELECT fence.protect('" + m.schema + ".accounts', $$'account/' || id$$)")
	accounts := &rowguard.Table{Guard: &sqlguard.Guard{DB: m.pool, Schema: m.schema}, Name: pgx.Identifier{m.schema, "accounts"},
		Prefix: "account/", Protected: true}
	update := func(number int64, holder string) error {
		ctx := token.NewContext(t.Context(), token.Token{Resource: "account/42", Number: number, Holder: holder})
		return accounts.Update(ctx, 42, rowguard.Set{"balance": 70})
	}
	require.NoError(t, update(poison, "forged"))
	old := m.ago(time.Minute)
	done := m.run("reset", "account/42", "--confirm", "account/42")
	require.Zero(t, done.status, done.err)
	fresh, _ := m.mark("account/42")
	require.ErrorIs(t, update(fresh+1, "next"), guard.ErrStale, "the row refuses still")

	schema := pgx.Identifier{m.schema}.Sanitize()
	cure := regexp.MustCompile(`UPDATE … (SET last_token = .+?, last_holder = 'reset'), after SELECT (.+)\(…\)`).FindStringSubmatch(done.out)
	require.Len(t, cure, 3, done.out)
	require.Equal(t, []string{"SET last_token = " + schema + ".number_at(now()), last_holder = 'reset'", schema + ".bypass"}, cure[1:])
	exec(fmt.Sprintf("DO $$ BEGIN PERFORM %s('%s.accounts', 'a forged token'); UPDATE fence.accounts %s WHERE id = 42; END $$", cure[2], m.schema, cure[1]))
	require.ErrorIs(t, update(old, "zombie"), guard.ErrStale)
	require.NoError(t, update(m.ago(0), "next"))
}
