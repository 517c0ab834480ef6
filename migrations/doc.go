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
//	prune · reset · protect               for who looks after them
//
// MySQL and SQLite get the table of marks and the floor. There are three ways to
// apply them:
//
//	migrations.Up(ctx, db)   // here and now, at a program's start or in a job
//	migrations.FS            // with the goose you run already
//	migrations.SQL()         // as a script, for psql and other tools
//
// [Check] tells a program at its start whether the database is fit for it,
// [Set.Status] what was applied when, and [Down] takes all of it back. The
// command "fencepost migrate" does the same.
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
// On PostgreSQL and MySQL Up needs a session of its own, so it must not run
// through a pooler in transaction mode. Down forgets all marks: what was refused before
// would be admitted again.
//
// # Where next
//
// [Set] is the same for another schema or dialect. The files themselves say
// what each function does; docs/migrations.md says who needs which right, and
// what becomes of a backup.
package migrations
