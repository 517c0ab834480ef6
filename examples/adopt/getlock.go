package adopt

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"

	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// GetLock keeps MySQL's GET_LOCK on a connection of its own, and draws the number in the
// database that the work writes to.
func GetLock(ctx context.Context, session *sql.Conn, fence *stdsql.Guard, work func(tx *sql.Tx) error) error {
	var granted sql.NullBool
	if err := session.QueryRowContext(ctx, "SELECT GET_LOCK(?, 60)", "account/42").Scan(&granted); err != nil {
		return err
	}
	if !granted.Bool {
		return errors.New("adopt: account/42 is locked")
	}
	defer session.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK(?)", "account/42")
	ctx, err := fence.Mint(ctx, "account/42", "billing:"+rand.Text())
	if err != nil {
		return err
	}
	return fence.Update(ctx, "account/42", work)
}
