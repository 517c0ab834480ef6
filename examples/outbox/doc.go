// Package outbox sends effects that no database can refuse or take back: a payment at a
// provider, an e-mail. Their receiver compares no tokens.
//
//	Pay      one transaction of Once: the balance, and a row of the outbox
//	Deliver  under the lock of the outbox: sends the row with its key, until it is answered
//	         then, through the guard: marks the row as answered
//
// # What it teaches
//
//   - The effect is not made in the transaction. The transaction may be rolled back after
//     the effect, or the function may run again. The row commits or does not, with the rest.
//   - Once records the row once, however often and by whichever holder Pay is repeated.
//   - The row's key is the unit's key. It was stored before the first attempt, so each
//     attempt has the same key, also that of another worker after a crash.
//   - The lock of the outbox saves duplicate requests, and the guard keeps a paused worker
//     from overwriting its successor's mark. Neither keeps the paused worker from sending.
//
// # What remains
//
//   - The receiver must honour the key, for longer than a row may stay unanswered. Payment
//     providers do. Then the effect happens once.
//   - A receiver that ignores keys, such as most mail servers, gets an effect at least once.
//     Put the key into the Message-ID, so that a reader can tell the copies apart.
//   - A row that the receiver has refused stays refused. The program decides what to do, for
//     example under a new unit that gives the amount back.
package outbox
