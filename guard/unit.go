package guard

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/token"
)

// Unit is a piece of work that a guard's Once applies once, however often it is repeated
// and by whichever holder: the method Once of sqlguard.Guard, stdsql.Guard and
// redisguard.Guard. Each unit is recorded under its resource and its Key, in the
// transaction or script that applies it, together with its result.
type Unit struct {
	// Key identifies the unit among all units of its resource, for example "payment/7".
	// Each repeat must give the same Key, so it must come from what causes the work, and
	// not from the attempt. The rules of [token.ValidateResource] apply.
	Key string
	// Fingerprint has the arguments of the work, in any form that is equal for equal
	// arguments. It may have any length: its SHA-256 is recorded. If a unit with the same
	// Key was recorded with another Fingerprint, Once returns [ErrKeyReused]. Empty is a
	// Fingerprint like any other.
	Fingerprint string
}

const (
	// MaxResult is the greatest length of a unit's result, in bytes.
	MaxResult = 64 << 10
	// DefaultRetention is how long a unit is recorded at least if its guard sets no
	// Retention: 30 days.
	DefaultRetention = 30 * 24 * time.Hour
)

// ErrKeyReused is returned when a unit with the same key was applied with another
// fingerprint. This call applied nothing. Give each piece of work a key of its own.
var ErrKeyReused = errors.New("guard: the unit's key was used with other arguments, nothing applied")

// Validate returns nil if the Key is valid, and a [*token.InvalidError] of the part "key"
// if not.
func (u Unit) Validate() error {
	err := token.ValidateResource(u.Key)
	if invalid := (*token.InvalidError)(nil); errors.As(err, &invalid) {
		return &token.InvalidError{Part: "key", Value: invalid.Value, Rule: invalid.Rule}
	}
	return err
}

// Sum is for implementations of Once. It returns the SHA-256 of the Fingerprint, which is
// recorded.
func (u Unit) Sum() []byte {
	sum := sha256.Sum256([]byte(u.Fingerprint))
	return sum[:]
}

// CheckResult is for implementations of Once. It returns an error if a result is longer
// than [MaxResult].
func CheckResult(result []byte) error {
	if len(result) > MaxResult {
		return fmt.Errorf("guard: the unit's result has %d bytes, the limit is %d, nothing applied", len(result), MaxResult)
	}
	return nil
}

// RetentionOr is for implementations of Once. It returns d, or [DefaultRetention] if d is
// zero, and an error if d is negative.
func RetentionOr(d time.Duration) (time.Duration, error) {
	switch {
	case d < 0:
		return 0, fmt.Errorf("guard: Retention is negative: %s", d)
	case d == 0:
		return DefaultRetention, nil
	}
	return d, nil
}
