package outbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
)

// Schema makes the table of an Outbox. A row without a status is not answered yet.
const Schema = "CREATE TABLE outbox (id bigserial PRIMARY KEY, key text NOT NULL UNIQUE, request text NOT NULL, status int)"

// Resource is the resource of the worker that delivers.
const Resource = "outbox"

// ErrFunds is returned if the balance is less than the amount.
var ErrFunds = errors.New("outbox: the balance is less than the amount")

// Outbox records payments and sends them to a provider.
type Outbox struct {
	DB     *pgxpool.Pool
	Fence  *sqlguard.Guard
	Client *http.Client // to the provider; it gets no tokens
	URL    string       // the provider's
}

// Pay withdraws an amount from an account, and records the payment. ctx holds the account's
// lock. After any error but ErrFunds, the caller repeats Pay with the same unit. The unit's
// Key must be unique in the outbox.
func (o *Outbox) Pay(ctx context.Context, account, amount int64, unit guard.Unit) error {
	_, err := o.Fence.Once(ctx, fmt.Sprintf("account/%d", account), unit, func(tx pgx.Tx) ([]byte, error) {
		tag, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance - $2 WHERE id = $1 AND balance >= $2", account, amount)
		if err == nil && tag.RowsAffected() == 0 {
			err = ErrFunds
		}
		if err != nil {
			return nil, err
		}
		_, err = tx.Exec(ctx, "INSERT INTO outbox (key, request) VALUES ($1, $2)", unit.Key, fmt.Sprintf(`{"amount":%d}`, amount))
		return nil, err
	})
	return err
}

// payment is a row that is not answered yet.
type payment struct{ Key, Request string }

// Deliver sends the payments that are not answered, in their order. ctx holds the lock of
// Resource: a worker calls Deliver again and again inside Hold. After an error the payment
// has an unknown outcome, and the next call sends it again under its key.
func (o *Outbox) Deliver(ctx context.Context) error {
	rows, err := o.DB.Query(ctx, "SELECT key, request FROM outbox WHERE status IS NULL ORDER BY id LIMIT 100")
	if err != nil {
		return err
	}
	payments, err := pgx.CollectRows(rows, pgx.RowToStructByPos[payment])
	if err != nil {
		return err
	}
	for _, p := range payments {
		status, err := o.send(ctx, p)
		if err != nil {
			return fmt.Errorf("outbox: %s: %w", p.Key, err)
		}
		err = o.Fence.Update(ctx, Resource, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE outbox SET status = $2 WHERE key = $1", p.Key, status)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// send returns the status of the provider's decision. It returns an error if there is
// none: the payment may have been made.
func (o *Outbox) send(ctx context.Context, p payment) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.URL, strings.NewReader(p.Request))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Idempotency-Key", strconv.Quote(p.Key))
	req.Header.Set("Content-Type", "application/json")
	resp, err := o.Client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, err
	}
	if !decided(resp.StatusCode) {
		return 0, errors.New(resp.Status)
	}
	return resp.StatusCode, nil
}

// decided reports whether a status is the provider's decision. The others ask for a
// repeat, or come from a proxy on the way.
func decided(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 200 && status < 300 || status >= 400 && status < 500
}
