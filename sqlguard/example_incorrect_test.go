package sqlguard_test

import (
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/sqlguard"
)

// Incorrect: a value that is read outside fn is read before the token is admitted. An
// older holder's write in between is overwritten. Read inside fn, or claim first.
func ExampleUpdate_incorrect() {
	var balance int
	_ = pool.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = 42").Scan(&balance)
	_ = sqlguard.Update(ctx, pool, "account/42", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE accounts SET balance = $1 WHERE id = 42", balance-50)
		return err
	})
}
