// Package migrations puts Fencepost's tables and functions into a database.
//
// # What it is
//
// SQL files for goose, one folder per dialect, embedded. PostgreSQL gets a
// schema with the marks (what has been admitted), the leases (who has what
// until when) and the functions that are the only way to change either:
//
//	admit · observe · mint · evict        marks, for package sqlguard
//	acquire · renew · release             leases, for package token/pgtoken
//
// SQLite gets the table of marks. There are three ways to apply them:
//
//	migrations.Up(ctx, db)   // here and now, at a program's start or in a job
//	migrations.FS            // with the goose you run already
//	migrations.SQL()         // as a script, for psql and other tools
//
// # What it promises
//
// Up may run in any number of processes at once, and any number of times. It
// keeps its own version table (fencepost_migrations, beside its other tables)
// and knows nothing of goose's global state: migrations that a program has
// registered there, and its goose_db_version, are neither run nor read. Names
// of schemas are quoted, as identifiers and as literals, whatever is in them.
//
// # What it does not
//
// Nothing migrates implicitly, and no other package imports this one. Up needs
// the rights of whoever shall own the tables; the application's own role needs
// none on the tables, only:
//
//	GRANT USAGE ON SCHEMA fencepost TO app
//
// On PostgreSQL Up needs a session of its own, so it must not run through a
// pooler in transaction mode. The Down halves of the files forget all marks:
// what was refused before would be admitted again.
//
// # Where next
//
// [Set] is the same for another schema or dialect. The files themselves say
// what each function does.
package migrations
