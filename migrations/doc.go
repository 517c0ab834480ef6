// Package migrations creates Fencepost's tables and functions in a database.
//
// # What it is
//
// The package embeds SQL files for goose, one folder per dialect. PostgreSQL gets a
// schema with the marks (the highest admitted tokens), the leases (the holders of
// resources), and functions. Only these functions change marks and leases:
//
//	admit · report_only · mint · evict    marks, for package sqlguard
//	insert_unit · set_result · find_unit  units that are applied once
//	acquire · renew · release             leases, for package token/pgtoken
//	prune · reset · protect               administration
//
// MySQL and SQLite get the tables of marks, of the floor and of units. There are three
// ways to apply them:
//
//	migrations.Set{}.Up(ctx, db)   // now, at a program's start or in a job
//	migrations.Set{}.FS()          // with the goose that the program uses already
//	migrations.Set{}.SQL()         // as a script, for psql and other tools
//
// [Set.Check] reports at a program's start what the database lacks, [Set.Status] lists
// what was applied when, and [Set.Down] reverts everything. The command "fencepost
// migrate" does the same.
//
// # What it promises
//
// Up may run in any number of processes at once, and any number of times. It has its own
// version table (fencepost_migrations, beside its other tables) and uses none of goose's
// global state: it neither runs the migrations that a program has registered there nor
// reads its goose_db_version. Schema names are quoted, as identifiers and as literals,
// and may contain any character that [Set.Schema] allows.
//
// # What it does not do
//
// No other package imports this one, and nothing migrates implicitly. Up runs as the role
// that will own the tables. The application's own role needs no rights on the tables,
// only:
//
//	GRANT USAGE ON SCHEMA fencepost TO app
//
// On PostgreSQL and MySQL, Up needs a session of its own. It refuses a PgBouncer in
// transaction mode; on MySQL, give it the server's own address. Down deletes all marks:
// after the next Up, tokens that were refused before are admitted.
//
// # Where next
//
//   - [Set] for another schema or dialect
//   - the SQL files for what each function does
//   - docs/migrations.md for the rights of each role, and for marks in a backup
package migrations

// The files of this package, in reading order:
//
//	set.go              the settings, and which are refused; the files for another goose (FS) or
//	                    as a script (SQL); the wrong Dialect ("the database seems to be")
//	migrate.go          Up and Down; "the database is at version": newer than the program; how
//	                    goose is set up, without its global state; LockedError
//	postgres.go         PostgreSQL: the schema ("this role may not create it"), its lock ("was
//	                    lost while migrating"), and poolers that break it; "tables are still
//	                    protected"; the engine check
//	mysql.go            MySQL: the named lock of the server; an interrupted Up; "the lock was
//	                    not granted"; the engine check
//	sqlite.go           SQLite: concurrent Ups without a lock, a busy database
//	versions.go         Status; the version table, and ErrUnversioned: tables that Up did not
//	                    create
//	check.go            what Check reports in each dialect ("is not there", "lacks rights"), in
//	                    which order; what is left out for an old schema
//	schema.go           which names of schemas are refused; how the name is put into the files
//	check_schema.sql    Check on PostgreSQL, first: the schema, its version(), and what the role
//	                    may read
//	check_postgres.sql  Check on PostgreSQL, second: missing or UNLOGGED tables, sequences,
//	                    missing functions, rights that the role lacks or must not have
//
// The files that Up applies. In each dialect, the marks are in 00001_marks.sql:
//
//	postgres/00001_marks.sql         marks and floor; admit: stale ZF001, collision ZF002, claim
//	                                 first ZF004; report_only; evict: which sessions are older
//	postgres/00002_mint.sql          mint; the next number of every issuer; exhausted ZF005;
//	                                 durable commits
//	postgres/00003_protect.sql       a trigger refuses writes without an admission (ZF003);
//	                                 protect, unprotect, bypass; refused resource expressions;
//	                                 which types can name a row (text_problem)
//	postgres/00004_mark_columns.sql  rows with their own mark: adds the columns; which keys are
//	                                 refused (check_key, check_row); the mark that refuses a token
//	postgres/00005_leases.sql        leases: acquire, renew, release, recover; a lease's number;
//	                                 the mark raised with a grant (claim); a reply's text
//	postgres/00006_queue.sql         waiters: their order, which count as gone, hand-off and
//	                                 NOTIFY; acquire and release of a held or queued resource
//	postgres/00007_fate.sql          what became of a transaction whose COMMIT had no reply; an
//	                                 incarnation of the server, and which servers have none
//	postgres/00008_once.sql          units that are applied once: inserted, found by a refused
//	                                 token, pruned
//	postgres/00009_prune.sql         prune: which marks and leases it deletes, and the floor
//	postgres/00010_admin.sql         reset of a mark that is too high; version
//	mysql/00001_marks.sql            the tables fencepost_marks and fencepost_floor; how to
//	                                 prune
//	mysql/00002_once.sql             the table fencepost_units; how to prune it
//	sqlite/00001_marks.sql           the same for SQLite
//	sqlite/00002_once.sql
