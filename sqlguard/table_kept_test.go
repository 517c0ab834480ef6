package sqlguard_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// What keeps a row from carrying the mark unmakes the fence: a claim must not
// say that it was made.
func TestAClaimThatTheRowDoesNotTake(t *testing.T) {
	t.Parallel()
	trigger := func(e *env, body string) {
		e.exec("CREATE FUNCTION " + e.schema + ".keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " + body + " END $$")
		e.exec("CREATE TRIGGER keep BEFORE UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION " + e.schema + ".keep()")
	}
	for name, keep := range map[string]func(e *env){
		"a trigger that passes over updates that change no data": func(e *env) {
			trigger(e, "IF (NEW.balance, NEW.writer) = (OLD.balance, OLD.writer) THEN RETURN NULL; END IF; RETURN NEW;")
		},
		"a trigger that keeps columns it does not know": func(e *env) {
			trigger(e, "NEW.last_token := OLD.last_token; NEW.last_holder := OLD.last_holder; RETURN NEW;")
		},
		"a rule": func(e *env) { e.exec("CREATE RULE keep AS ON UPDATE TO accounts DO INSTEAD NOTHING") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newRows(t)
			keep(e.env)
			err := e.accounts.Claim(e.bounded(), tokenOf(34))
			require.ErrorContains(t, err, "has not taken the mark")
			require.Empty(t, outcomes(err))
			require.Empty(t, e.mark(resource), "nor has the marks table")
			require.Equal(t, "1 h1", e.row())
		})
	}
	t.Run("the twin, which asks only whether a newer mark is there, takes it for made", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		trigger(e.env, "IF (NEW.balance, NEW.writer) = (OLD.balance, OLD.writer) THEN RETURN NULL; END IF; RETURN NEW;")
		e.exec("UPDATE accounts SET last_token = 34, last_holder = 'h34' WHERE id = 42 AND last_token < 34")
		require.False(t, query[bool](e.env, "SELECT last_token > 34 FROM accounts WHERE id = 42"))
		require.NoError(t, e.accounts.Update(e.ctx(33), 42, someone), "and the stale write lands")
	})
	t.Run("an insert that a trigger takes elsewhere is not said to have done nothing", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.exec("CREATE TABLE ledger (id bigint)")
		e.exec("CREATE FUNCTION " + e.schema + ".keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO ledger VALUES (NEW.id); RETURN NULL; END $$")
		e.exec("CREATE TRIGGER keep BEFORE INSERT ON accounts FOR EACH ROW EXECUTE FUNCTION " + e.schema + ".keep()")
		tok := token.Token{Resource: "account/50", Number: 33, Holder: "h33"}
		err := e.accounts.Insert(token.NewContext(e.bounded(), tok), 50, nil)
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(err))
		require.Equal(t, 1, query[int](e.env, "SELECT count(*) FROM ledger"))
	})
}

// hazard G19
func TestAKeyWhoseTextDependsOnTheSession(t *testing.T) {
	t.Parallel()
	for column, key := range map[string]string{
		"date": "2026-10-30", "timestamptz": "2026-10-30 12:00:00+00", "interval": "1 day", "bytea": `\x01`,
		"double precision": "0.1", "real": "0.1", "money": "$1.00",
	} {
		t.Run(column, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.exec("CREATE TABLE ledger (k " + column + " PRIMARY KEY, last_token bigint, last_holder text)")
			rows := &sqlguard.Table{Guard: e.guard, Name: pgx.Identifier{e.schema, "ledger"}, Key: "k", Prefix: "day/"}
			tok := token.Token{Resource: "day/" + key, Number: 33, Holder: "h33"}
			require.ErrorContains(t, rows.Insert(token.NewContext(e.bounded(), tok), key, nil), "another text in another session")
			e.exec("INSERT INTO ledger VALUES ($1::text::"+column+")", key)
			require.ErrorContains(t, rows.Claim(e.bounded(), tok), "another text in another session")
			require.Equal(t, 1, query[int](e, "SELECT count(*) FROM ledger WHERE last_token IS NULL"), "the one row, as it was")
		})
	}
	t.Run("the twin: two sessions fence one row under two names", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		iso := query[string](e, "SELECT date '2026-10-30'::text")
		german := query[string](e, "SELECT set_config('DateStyle', 'German', false) || date '2026-10-30'::text")
		require.NotContains(t, german, iso)
	})
}
