package sqlpoint

import (
	"context"
	"database/sql/driver"
	"errors"
)

// positional does what database/sql does for a driver that knows no contexts
// and no names.
func positional(ctx context.Context, named []driver.NamedValue) ([]driver.Value, error) {
	values := make([]driver.Value, len(named))
	for i, value := range named {
		if value.Name != "" {
			return nil, errors.New("sql: driver does not support the use of Named Parameters")
		}
		values[i] = value.Value
	}
	return values, ctx.Err()
}
