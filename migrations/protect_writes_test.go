package migrations_test

import (
	"maps"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// shapes are fences with protected tables of different kinds.
var shapes = map[string]func(t *testing.T) fence{
	"a table": func(t *testing.T) fence {
		f := newAccounts(t)
		run(t, f, f, `CREATE TABLE fence.others (id int); SELECT fence.protect('fence.others', '''other''');
			CREATE FUNCTION fence.pay() RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = '' AS $$ `+write42+` $$;
			CREATE FUNCTION fence.admit_and_pay() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS
			$$ BEGIN PERFORM fence.admit('account/42', 5, 'a'); PERFORM fence.pay(); END $$;
			CREATE FUNCTION fence.other() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id := TG_ARGV[0]; RETURN NEW; END $$`)
		require.NoError(t, f.admit(t.Context(), f, "account/42", 5, "a")) // for transactions with an old snapshot
		return f
	},
	"two tables": newAccounts, "partitions": newPartitions,
	// Under every search_path, the trigger and the expression call the functions that they
	// called when the table was protected.
	"a table whose expression calls functions": func(t *testing.T) fence {
		f := newAccounts(t)
		run(t, f, f, `CREATE FUNCTION fence.slug(n bigint) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT 'slug-' || n $$;
			CREATE FUNCTION fence.lower(text) RETURNS text LANGUAGE sql AS $$ SELECT 'account/nonsense' $$;
			CREATE FUNCTION fence.strpos(text, text) RETURNS int LANGUAGE sql AS $$ SELECT 1 $$`)
		f.protect(t, "fence.accounts", f.sql("lower('ACCOUNT/') || fence.slug(id)"))
		return f
	},
	"a child, ON DELETE CASCADE":  func(t *testing.T) fence { return newChild(t, "CASCADE") },
	"a child, ON DELETE SET NULL": func(t *testing.T) fence { return newChild(t, "SET NULL") },
}

// newChild returns accounts whose one row belongs to a row of owners.
func newChild(t *testing.T, action string) fence {
	t.Helper()
	f := newAccounts(t)
	run(t, f, f, "CREATE TABLE fence.owners (id int PRIMARY KEY); INSERT INTO fence.owners VALUES (1)")
	run(t, f, f, "ALTER TABLE fence.accounts ADD owner int REFERENCES fence.owners ON DELETE "+action)
	require.NoError(t, f.guarded(t, "DELETE FROM fence.accounts WHERE id = 43; UPDATE fence.accounts SET owner = 1", "account/42", "account/43"))
	return f
}

const (
	write42 = "UPDATE fence.accounts SET writer = 'x' WHERE id = 42"
	copyIn  = "COPY fence.accounts FROM STDIN"
	leave   = "DELETE FROM fence.owners WHERE id = 1"
	move    = "UPDATE fence.accounts SET id = 44 WHERE id = 42"
	admit   = "SELECT fence.admit('account/42', 5, 'a')"
	bypass  = "SELECT fence.bypass('fence.accounts', 'wrong currency')"
	region  = "UPDATE fence.jobs SET region = 'south', id = 9 WHERE id = 1 AND region = 'north'"
	replica = "SET LOCAL session_replication_role = replica"
)

// write is a statement on a table of a shape, the last of a transaction. It is let in, or
// refused: for the lack of an admission for a resource, as a TRUNCATE, for a resource that is
// NULL, or with a SQLSTATE.
type write struct {
	before   []string // what ran after BEGIN, and succeeded
	admitted string   // the resources that the transaction was admitted for after that
	text     string
	refused  string // the resource, TRUNCATE, NULL, or the SQLSTATE. Empty if it is let in.
	after    string // a query that must return true afterwards
}

// hazard G15, G24
var writes = map[string]map[string]write{
	"a table": {
		"by a transaction for another resource":   {admitted: "account/43", text: write42, refused: "account/42"},
		"for one that it begins with":             {admitted: "account/421", text: write42, refused: "account/42"},
		"for one that ends with it":               {admitted: "my/account/42", text: write42, refused: "account/42"},
		"of a new row, for one that ends with it": {admitted: "my/account/44", text: "INSERT INTO fence.accounts VALUES (44, '')", refused: "account/44"},
		"for its prefix":                          {admitted: "account/4", text: write42, refused: "account/42"},
		"of two rows, admitted for one":           {admitted: "account/42", text: "UPDATE fence.accounts SET writer = 'x'", refused: "account/43"},
		"of two rows, admitted for both":          {admitted: "account/42 account/43", text: "UPDATE fence.accounts SET writer = 'x'"},
		"of a row's resource, for the old one":    {admitted: "account/42", text: move, refused: "account/44"},
		"of a row's resource, for the new one":    {admitted: "account/44", text: move, refused: "account/42"},
		"of a row's resource, for both":           {admitted: "account/42 account/44", text: move + "; UPDATE fence.accounts SET id = 42 WHERE id = 44"},
		"by COPY":                                 {text: copyIn, refused: "account/44"},
		"by COPY, admitted for the first row":     {admitted: "account/44", text: copyIn, refused: "account/45"},
		"by COPY, admitted for all":               {admitted: "account/44 account/45", text: copyIn},
		"the twin: by COPY, unprotected":          {text: "COPY fence.plain FROM STDIN"},
		"by a function":                           {text: "SELECT fence.pay()", refused: "account/42"},
		"by a function, admitted":                 {admitted: "account/42", text: "SELECT fence.pay()"},
		"by a function that admits":               {text: "SELECT fence.admit_and_pay()"},
		"of nothing, ON CONFLICT":                 {text: "INSERT INTO fence.accounts VALUES (42, '') ON CONFLICT DO NOTHING", refused: "account/42"},
		"that finds no row":                       {text: "UPDATE fence.accounts SET writer = 'x' WHERE id = 7; DELETE FROM fence.accounts WHERE id = 7; SELECT FROM fence.accounts FOR UPDATE"},
		// Protection catches mistakes and does not stop an attacker: any session can set it.
		"with a forged admission": {before: []string{`SELECT set_config('fencepost.admitted', E'\n{schema}/account/42\n', true)`}, text: write42},

		// The trigger checks the row as other triggers left it.
		"that a trigger changes":                           {before: []string{"CREATE TRIGGER z BEFORE INSERT ON fence.accounts FOR EACH ROW EXECUTE FUNCTION fence.other(144)"}, admitted: "account/44", text: "INSERT INTO fence.accounts VALUES (44, 'x')", refused: "account/144"},
		"that a trigger changes, for what comes of it":     {before: []string{"CREATE TRIGGER z BEFORE INSERT ON fence.accounts FOR EACH ROW EXECUTE FUNCTION fence.other(144)"}, admitted: "account/144", text: "INSERT INTO fence.accounts VALUES (44, 'x')"},
		"the hole: that a later trigger changes":           {before: []string{"CREATE TRIGGER zzz BEFORE UPDATE ON fence.accounts FOR EACH ROW EXECUTE FUNCTION fence.other(42)"}, admitted: "account/42 account/43", text: "DELETE FROM fence.accounts WHERE id = 42; UPDATE fence.accounts SET id = 43 WHERE id = 43", after: "SELECT EXISTS (SELECT FROM fence.accounts WHERE id = 42)"},
		"the hole: of a child that inherits":               {before: []string{"CREATE TABLE fence.child () INHERITS (fence.accounts); INSERT INTO fence.child VALUES (50, '')"}, text: "UPDATE fence.accounts SET writer = 'x' WHERE id = 50"},
		"the hole: with triggers that were disabled":       {before: []string{"ALTER TABLE fence.accounts DISABLE TRIGGER USER"}, text: write42},
		"the hole: TRUNCATE with triggers that are off":    {before: []string{"ALTER TABLE fence.accounts DISABLE TRIGGER USER"}, text: "TRUNCATE fence.accounts"},
		"in the replication role":                          {before: []string{replica}, text: write42 + "; TRUNCATE fence.accounts"},
		"in the replication role, with ENABLE ALWAYS":      {before: []string{"ALTER TABLE fence.accounts ENABLE ALWAYS TRIGGER zz_fencepost_row", replica}, text: write42, refused: "account/42"},
		"whose expression fails":                           {before: []string{"SELECT fence.protect('fence.accounts', 'nullif(writer, ''none'') || 100 / id')"}, text: "INSERT INTO fence.accounts VALUES (0, 'x')", refused: "22012"},
		"whose expression fails, report-only":              {before: []string{"SELECT fence.protect('fence.accounts', 'nullif(writer, ''none'') || 100 / id', 'report-only')"}, text: "INSERT INTO fence.accounts VALUES (0, 'x')", refused: "22012"},
		"whose expression is NULL, an INSERT":              {before: []string{"SELECT fence.protect('fence.accounts', 'nullif(writer, ''none'')')"}, admitted: "none x", text: "INSERT INTO fence.accounts VALUES (44, 'none')", refused: "NULL"},
		"whose expression is NULL, an UPDATE":              {before: []string{"UPDATE fence.plain SET writer = 'x'; SELECT fence.protect('fence.plain', 'nullif(writer, ''none'')')"}, admitted: "none x", text: "UPDATE fence.plain SET writer = 'none'", refused: "NULL"},
		"after a column was renamed":                       {before: []string{"ALTER TABLE fence.accounts RENAME id TO number"}, admitted: "account/42 account/43", text: "UPDATE fence.accounts SET writer = 'x'", refused: "42703"},
		"after a column was renamed, and the next protect": {before: []string{"ALTER TABLE fence.accounts RENAME id TO number; SELECT fence.protect('fence.accounts', $$'account/' || number$$)"}, admitted: "account/42 account/43", text: "UPDATE fence.accounts SET writer = 'x'"},

		"after a COMMIT":                            {before: []string{admit, "COMMIT", "BEGIN"}, text: write42, refused: "account/42"},
		"after a ROLLBACK":                          {before: []string{admit, "ROLLBACK", "BEGIN"}, text: write42, refused: "account/42"},
		"after a savepoint was rolled back":         {before: []string{"SAVEPOINT a", admit, "ROLLBACK TO a"}, text: write42, refused: "account/42"},
		"after the one around it was":               {before: []string{"SAVEPOINT a", "SAVEPOINT b", admit, "RELEASE b", "ROLLBACK TO a"}, text: write42, refused: "account/42"},
		"after a block whose EXCEPTION ran":         {before: []string{"DO $$ BEGIN PERFORM fence.admit('account/42', 5, 'a'); RAISE 'x'; EXCEPTION WHEN OTHERS THEN END $$"}, text: write42, refused: "account/42"},
		"after a savepoint was released":            {before: []string{"SAVEPOINT a", admit, "RELEASE a"}, text: write42},
		"after a later savepoint was rolled back":   {before: []string{admit, "SAVEPOINT a", "ROLLBACK TO a"}, text: write42},
		"admitted again in what was rolled back":    {before: []string{admit, "SAVEPOINT a", admit, "ROLLBACK TO a"}, text: write42},
		"after a block that went well":              {before: []string{"DO $$ BEGIN PERFORM fence.admit('account/42', 5, 'a'); EXCEPTION WHEN OTHERS THEN END $$"}, text: write42},
		"with the session's settings reset to none": {before: []string{admit, "SELECT set_config('search_path', '', true)"}, text: write42},
		"under repeatable read":                     {before: []string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"}, text: write42, refused: "account/42"},
		"under repeatable read, admitted":           {before: []string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"}, admitted: "account/42", text: write42},
		"under serializable":                        {before: []string{"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"}, text: write42, refused: "account/42"},
		"under serializable, admitted":              {before: []string{"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"}, admitted: "account/42", text: write42},
		"after a refusal behind a savepoint":        {before: []string{"SAVEPOINT a", "DO $$ BEGIN " + write42 + "; EXCEPTION WHEN SQLSTATE 'ZF003' THEN END $$", "ROLLBACK TO a"}, admitted: "account/42", text: write42},

		"with a bypass":                        {before: []string{bypass, write42, "DELETE FROM fence.accounts", "TRUNCATE fence.accounts"}, text: "INSERT INTO fence.accounts VALUES (42, ''), (43, '')"},
		"with a bypass of another table":       {before: []string{bypass, write42}, text: "INSERT INTO fence.others VALUES (1)", refused: "other"},
		"with a bypass of two tables":          {before: []string{bypass, "SELECT fence.bypass('fence.others', 'too')", write42}, text: "INSERT INTO fence.others VALUES (1)"},
		"with a bypass, after its transaction": {before: []string{bypass, "COMMIT", "BEGIN"}, text: write42, refused: "account/42"},
		"with a bypass, after its savepoint":   {before: []string{"SAVEPOINT a", bypass, write42, "ROLLBACK TO a"}, text: write42, refused: "account/42"},
		"with a bypass in a savepoint":         {before: []string{"SAVEPOINT a", bypass, "RELEASE a"}, text: write42},
		"with a bypass in a block that failed": {before: []string{"DO $$ BEGIN PERFORM fence.bypass('fence.accounts', 'x'); RAISE 'x'; EXCEPTION WHEN OTHERS THEN END $$"}, text: write42, refused: "account/42"},
	},
	"a child, ON DELETE CASCADE": {
		"that cascades":           {text: leave, refused: "account/42"},
		"that cascades, admitted": {admitted: "account/42", text: leave, after: "SELECT NOT EXISTS (SELECT FROM fence.accounts)"},
	},
	"a child, ON DELETE SET NULL": {
		"that cascades":           {text: leave, refused: "account/42"},
		"that cascades, admitted": {admitted: "account/42", text: leave, after: "SELECT owner IS NULL FROM fence.accounts"},
	},
	"partitions": {
		"by way of the table":              {admitted: "job/north/1 job/south/1", text: "UPDATE fence.jobs SET n = 1 WHERE id = 1", refused: "job/west/1"},
		"by way of the table, admitted":    {admitted: "job/north/1 job/south/1 job/west/1", text: "UPDATE fence.jobs SET n = 1 WHERE id = 1"},
		"directly":                         {text: "UPDATE fence.south SET n = 1 WHERE id = 1", refused: "job/south/1"},
		"directly, two levels down":        {text: "DELETE FROM fence.west1 WHERE id = 1", refused: "job/west/1"},
		"of a new row":                     {text: "INSERT INTO fence.jobs VALUES (3, 'west', 0)", refused: "job/west/3"},
		"of a row that moves, for the old": {admitted: "job/north/1", text: region, refused: "job/south/9"},
		"of a row that moves, for the new": {admitted: "job/south/9", text: region, refused: "job/north/1"},
		"of a row that moves, for both":    {admitted: "job/north/1 job/south/9", text: region},
		"truncate":                         {text: "TRUNCATE fence.jobs", refused: "TRUNCATE"},
		"truncate of a partition":          {text: "TRUNCATE fence.north", refused: "TRUNCATE"},
		"truncate two levels down":         {text: "TRUNCATE fence.west1", refused: "TRUNCATE"},
		"truncate half way down":           {text: "TRUNCATE fence.west", refused: "TRUNCATE"},
		"with a bypass":                    {before: []string{"SELECT fence.bypass('fence.jobs', 'x'); UPDATE fence.jobs SET n = 1"}, text: "TRUNCATE fence.jobs"},
		"with a bypass of a partition":     {before: []string{"SELECT fence.bypass('fence.west', 'x')"}, text: "UPDATE fence.west SET n = 1; UPDATE fence.west1 SET n = 1"},
		"with a bypass of another":         {before: []string{"SELECT fence.bypass('fence.west', 'x')"}, text: "UPDATE fence.jobs SET n = 1 WHERE region = 'north' AND id = 1", refused: "job/north/1"},
	},
}

func TestProtectedWrites(t *testing.T) {
	t.Parallel()
	kinds, slug := map[string]write{}, map[string]write{}
	for kind, text := range map[string]string{
		"insert": "INSERT INTO fence.accounts VALUES (44, 'x')", "update": write42, "delete": "DELETE FROM fence.accounts WHERE id = 42", "truncate": "TRUNCATE fence.accounts",
		"upsert":              "INSERT INTO fence.accounts VALUES (42, 'x') ON CONFLICT (id) DO UPDATE SET writer = excluded.writer",
		"insert from a query": "INSERT INTO fence.accounts SELECT id + 10, 'x' FROM fence.plain WHERE id = 42",
		"update in a CTE":     "WITH w AS (UPDATE fence.accounts SET writer = 'x' WHERE id = 42 RETURNING id) SELECT FROM w",
		"merge": `MERGE INTO fence.accounts a USING fence.plain p ON a.id = p.id AND p.id = 42
			WHEN MATCHED THEN UPDATE SET writer = 'x' WHEN NOT MATCHED THEN INSERT VALUES (p.id + 10, 'x')`,
	} {
		refused, guarded := map[string]string{"insert": "account/44", "insert from a query": "account/52", "truncate": "TRUNCATE"}[kind], ""
		if kind == "truncate" {
			guarded = refused
		}
		if refused == "" {
			refused = "account/42"
		}
		kinds[kind] = write{text: text, refused: refused}
		kinds[kind+", admitted"] = write{admitted: "account/42 account/44 account/52 account/53", text: text, refused: guarded}
		kinds["the twin: "+kind+", unprotected"] = write{text: strings.ReplaceAll(text, "accounts", "plain")}
	}
	for _, path := range []string{"''", "'{schema}'", "pg_catalog", "pg_catalog, '{schema}'"} {
		set := []string{"SET LOCAL search_path = " + path}
		slug["under search_path "+path] = write{before: set, text: write42, refused: "account/slug-42"}
		slug["under search_path "+path+", admitted"] = write{before: set, admitted: "account/slug-42", text: write42}
	}
	all := map[string]map[string]write{"two tables": kinds, "a table whose expression calls functions": slug}
	maps.Copy(all, writes)
	for shape, cases := range all {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			f := shapes[shape](t)
			for name, c := range cases {
				t.Run(name, func(t *testing.T) { c.run(t, f) })
			}
		})
	}
}

// run makes the write, and rolls it back.
func (c write) run(t *testing.T, f fence) {
	conn, ctx := f.conn(t), t.Context()
	defer conn.Close(ctx)
	for _, text := range append([]string{"BEGIN"}, c.before...) {
		run(t, f, conn, strings.ReplaceAll(text, "{schema}", f.schema))
	}
	for _, resource := range strings.Fields(c.admitted) {
		require.NoError(t, f.admit(ctx, conn, resource, 5, "a"))
	}
	var err error
	if strings.HasPrefix(c.text, "COPY") {
		_, err = conn.PgConn().CopyFrom(ctx, strings.NewReader("44\tx\n45\ty\n"), f.sql(c.text))
	} else {
		err = f.exec(ctx, conn, c.text)
	}
	switch {
	case c.refused == "":
		require.NoError(t, err)
	case unicode.IsDigit(rune(c.refused[0])):
		require.Equal(t, c.refused, code(err), "%v", err)
	default:
		says := map[string]string{"TRUNCATE": "a TRUNCATE has no resource", "NULL": "the row's resource is NULL"}[c.refused]
		if says == "" {
			says = "resource " + c.refused + ":"
		}
		require.Contains(t, unguarded(t, err).Detail, says)
	}
	if c.after != "" {
		require.True(t, get[bool](t, f, conn, c.after))
	}
}
