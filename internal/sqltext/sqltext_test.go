package sqltext_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/sqltext"
)

func TestVerb(t *testing.T) {
	t.Parallel()
	for sql, verb := range map[string]string{
		"": "", "-- ping": "", "; /* nothing */ ": "", ";": "",
		"select 1": "SELECT", "(SELECT 1) UNION (SELECT 2)": "SELECT", "\n\t-- why\n/* a\nb */ update x set y = 1": "UPDATE",
		"commit": "COMMIT", "END": "COMMIT", "abort": "ROLLBACK", "rollback;": "ROLLBACK", "ROLLBACK TO sp_1": "SAVEPOINT",
		"rollback to savepoint sp_1": "SAVEPOINT", "start transaction": "BEGIN", "begin immediate": "BEGIN", "$1": "",
	} {
		require.Equal(t, verb, sqltext.Verb(sql), "%q", sql)
	}
}

func TestReads(t *testing.T) {
	t.Parallel()
	for sql, reads := range map[string]bool{
		"SELECT 1": true, "WITH a AS (SELECT 1) SELECT * FROM a": true, "PRAGMA foreign_keys": true, "-- ping": true, "savepoint a": true,
		"INSERT INTO x VALUES (1)": false, "WITH a AS (DELETE FROM x RETURNING 1) SELECT * FROM a": false,
		"REPLACE INTO x VALUES (1)": false, "CREATE TABLE x (y int)": false, "CALL p()": false, "a_prepared_statement": false,
	} {
		require.Equal(t, reads, sqltext.Reads(sql), "%q", sql)
	}
}

func TestWrites(t *testing.T) {
	t.Parallel()
	for sql, writes := range map[string]bool{
		"insert into x VALUES (1)": true, "-- why\nUPDATE x SET y = 1": true, "CALL p()": true, "COPY x FROM STDIN": true,
		"WITH a AS (DELETE FROM x RETURNING 1) SELECT * FROM a": true,
		"SELECT 1": false, "WITH a AS (SELECT 1) SELECT * FROM a": false, "BEGIN": false, "CREATE TABLE x (y int)": false,
		"a_prepared_statement": false, "": false,
	} {
		require.Equal(t, writes, sqltext.Writes(sql), "%q", sql)
		require.Equal(t, writes && sqltext.Verb(sql) == "WITH", sqltext.WritesInWith(sql), "%q", sql)
	}
}

func TestRollsBackTo(t *testing.T) {
	t.Parallel()
	for sql, is := range map[string]bool{
		"ROLLBACK TO a": true, "rollback work to savepoint a": true, " -- why\nRollback\nTo a": true, "/* x */ ROLLBACK TRANSACTION TO SAVEPOINT a;": true,
		"ROLLBACK": false, "rollback;": false, "ABORT": false, "SAVEPOINT a": false, "RELEASE a": false, "": false,
		"INSERT INTO x SELECT 'ROLLBACK TO a'": false, "ROLLBACK PREPARED 'a'": false, "rollback and chain": false,
	} {
		require.Equal(t, is, sqltext.RollsBackTo(sql), "%q", sql)
	}
}

func TestWrote(t *testing.T) {
	t.Parallel()
	for tag, wrote := range map[string]bool{
		"INSERT 0 1": true, "UPDATE 3": true, "DELETE 10": true, "MERGE 1": true, "COPY 7": true,
		"CREATE TABLE": true, "TRUNCATE TABLE": true, "CALL": true, "DO": true,
		"INSERT 0 0": false, "UPDATE 0": false, "COPY 0": false,
		"SELECT 1": false, "SELECT 0": false, "SHOW": false, "BEGIN": false, "COMMIT": false, "": false,
		"START TRANSACTION": false, "LOCK TABLE": false, "DECLARE CURSOR": false, "DISCARD ALL": false,
	} {
		require.Equal(t, wrote, sqltext.Wrote(tag), tag)
	}
}
