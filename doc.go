// Package fencepost is the map of this module. It has no code.
//
// Fencepost makes a resource refuse writes from a lock holder that no longer holds the
// lock. Each acquisition gets a number, a fencing token. Each write carries the number.
// The resource keeps the greatest number it has seen, and refuses a lower one.
//
// # First steps
//
//	fence := &sqlguard.Guard{DB: pool} // a *pgxpool.Pool
//	locks := &lock.Locker{Issuer: &pgtoken.Issuer{DB: pool}, Claim: fence.Admit}
//	err := locks.Hold(ctx, "account/42", func(ctx context.Context) error {
//		_, err := fence.On("account/42").Exec(ctx, "UPDATE accounts SET balance = $1 WHERE id = 42", 70)
//		return err
//	})
//
// The tables come from package migrations. README.md has the whole program, docs/README.md
// lists all pages, and docs/choosing.md helps to decide whether a program needs this module.
//
// # Locks
//
//   - [github.com/fencepost/fencepost/lock]: how a program holds a resource.
//     Locker waits, renews, releases, and puts the token into the context.
//   - [github.com/fencepost/fencepost/token]: the token, its context and text
//     form, and the contract of an issuer. The issuers redistoken, pgtoken, etcdtoken,
//     consultoken, k8stoken, httptoken and memtoken are below it; tokentest tests an issuer
//     against the contract.
//
// # Guards
//
//   - [github.com/fencepost/fencepost/sqlguard]: writes to PostgreSQL through pgx.
//     [github.com/fencepost/fencepost/sqlguard/rowguard]: rows that carry their own mark.
//     [github.com/fencepost/fencepost/sqlguard/stdsql]: the same over database/sql,
//     for PostgreSQL, MySQL, MariaDB and SQLite.
//   - [github.com/fencepost/fencepost/redisguard]: writes to Redis.
//   - [github.com/fencepost/fencepost/httpguard]: the Fencing-Token header, a
//     transport that sends it, and a middleware that refuses stale requests.
//     [github.com/fencepost/fencepost/httpguard/signature]: signed tokens.
//   - [github.com/fencepost/fencepost/guard]: the rule that all guards follow, and
//     the outcomes of a write. guardtest, below it, tests a store against the contract.
//   - [github.com/fencepost/fencepost/migrations]: the tables and functions that
//     the SQL guards and pgtoken need.
//
// # Tests and tools
//
//   - [github.com/fencepost/fencepost/simulations]: a test that pauses a program's
//     own code while it holds the lock, and checks that no write is lost.
//   - cmd/fencepost: the command, for operators and other languages, a module of its own.
//
// internal has what these packages share: pgwrite sends the guarded writes to PostgreSQL,
// history has the rules by which a recorded run is judged, and timeline draws it as a page.
// contrib has modules of their own: etcdguard, gormguard, natstoken, otelfence, redisquorum,
// zktoken.
// lab is a module that no other module imports: stress tests, benchmarks, and a model that
// is searched exhaustively. docs/design.md explains the parts.
package fencepost
