// Package migrations creates Fencepost's tables and functions in a database.
//
// # What it is
//
// The package embeds SQL files for goose, one folder per dialect. PostgreSQL gets a
// schema with the marks (the highest admitted tokens), the leases (the holders of
// resources), and functions. Only these functions change marks and leases:
//
//	admit · report_only · mint · evict    marks, for package sqlguard
//	acquire · renew · release             leases, for package token/pgtoken
//	prune · reset · protect               administration
//
// MySQL and SQLite get the table of marks and the floor. There are three ways to
// apply them:
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
// On PostgreSQL and MySQL, Up needs a session of its own, so it must not run through a
// pooler in transaction mode. Down deletes all marks: after the next Up, tokens that were
// refused before are admitted.
//
// # Where next
//
//   - [Set] for another schema or dialect
//   - the SQL files for what each function does
//   - docs/migrations.md for the rights of each role, and for marks in a backup
package migrations
