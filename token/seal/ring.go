package seal

import (
	"crypto/hmac"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/token"
)

var errNoKeys = errors.New("seal: a ring needs a key")

// Ring seals tokens and verifies seals. It is safe for concurrent use, and must
// not be copied. The zero Ring has no key: it seals nothing and accepts nothing.
//
// Keys are changed in three steps, each done everywhere before the next begins:
// the new key is added behind the old one, so that all can verify it; it is put
// first, so that all seal with it; the old one is left out, when what was sealed
// with it is no longer needed.
type Ring struct {
	signers atomic.Pointer[[]*signer]
}

// New returns a ring. The first key seals; all of them verify. It copies the
// secrets. No keys, an incomplete key, and two keys with one id are an error.
func New(keys ...Key) (*Ring, error) {
	r := new(Ring)
	if err := r.Replace(keys...); err != nil {
		return nil, err
	}
	return r, nil
}

// Replace gives the ring other keys, under the same conditions as [New]. It is
// atomic: a Seal or Verify that runs meanwhile has either all the old keys or
// all the new ones. On an error the keys stay as they were.
func (r *Ring) Replace(keys ...Key) error {
	if len(keys) == 0 {
		return errNoKeys
	}
	signers := make([]*signer, len(keys))
	for i, key := range keys {
		if err := key.check(); err != nil {
			return fmt.Errorf("seal: key %d: %w", i+1, err)
		}
		if find(signers[:i], key.ID) != nil {
			return fmt.Errorf("seal: key %d: an earlier key has the same id", i+1)
		}
		signers[i] = newSigner(key)
	}
	r.signers.Store(&signers)
	return nil
}

// Seal seals tok until that time, in whole seconds, rounded down; the zero time
// is no end. An incomplete token is a [*token.InvalidError]; a time before 1970,
// or after what fifteen digits can count, is [token.ErrInvalid] too. A time that
// has passed is accepted, and the seal is one that has expired.
func (r *Ring) Seal(tok token.Token, until time.Time) (Sealed, error) {
	if err := tok.Check(); err != nil {
		return Sealed{}, err
	}
	signers := r.signers.Load()
	if signers == nil {
		return Sealed{}, errNoKeys
	}
	first := (*signers)[0]
	s := Sealed{Token: tok, Key: first.id}
	if !until.IsZero() {
		if s.Until = until.Unix(); s.Until < 1 || s.Until > token.MaxNumber {
			return Sealed{}, fmt.Errorf("%w: a seal cannot end %s", token.ErrInvalid, until.UTC().Format(time.RFC3339))
		}
	}
	s.Code = first.code(&s)
	return s, nil
}

// Verify returns nil or an [*Error]. That a seal has expired is said only of a
// seal that was right. It takes the time from this process's clock, and only for
// seals that have an end; one that ends now has ended.
func (r *Ring) Verify(s Sealed) error {
	if s.Key == "" {
		return &Error{Token: s.Token, Reason: Unsealed}
	}
	key := r.key(s.Key)
	if key == nil {
		return &Error{Token: s.Token, Key: s.Key, Reason: UnknownKey}
	}
	if code := key.code(&s); !hmac.Equal(code[:], s.Code[:]) {
		return &Error{Token: s.Token, Key: s.Key, Reason: Wrong}
	}
	if s.Until != 0 && time.Now().Unix() >= s.Until {
		return &Error{Token: s.Token, Key: s.Key, Reason: Expired}
	}
	return nil
}

// key compares ids plainly: they are no secret.
func (r *Ring) key(id string) *signer {
	signers := r.signers.Load()
	if signers == nil {
		return nil
	}
	return find(*signers, id)
}

func find(signers []*signer, id string) *signer {
	for _, s := range signers {
		if s.id == id {
			return s
		}
	}
	return nil
}
