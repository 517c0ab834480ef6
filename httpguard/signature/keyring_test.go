package signature_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/token"
)

func TestWhatIsSignedVerifies(t *testing.T) {
	t.Parallel()
	r := keyring(t, key("2026-11", 'a'), key("2026-10", 'b'))
	for name, tok := range map[string]token.Token{
		"a token":             account,
		"names that are long": {Resource: strings.Repeat("r", token.MaxNameBytes), Number: token.MaxNumber, Holder: strings.Repeat("ö", 100)},
		"names of one letter": {Resource: "r", Number: 1, Holder: "h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := r.Sign(tok, time.Time{})
			require.NoError(t, err)
			require.Equal(t, tok, s.Token)
			require.Equal(t, "2026-11", s.Key, "the first key signs")
			require.Zero(t, s.Until)
			require.NoError(t, r.Verify(s))
			again, err := r.Sign(tok, time.Time{})
			require.NoError(t, err)
			require.Equal(t, s, again)
			require.True(t, s == again, "comparable, and the same each time")
		})
	}
}

// hazard W2
func TestAForgedNumberBlocksNoHolder(t *testing.T) {
	t.Parallel()
	r := keyring(t, key("2026-11", 'a'))
	honest, err := r.Sign(account, time.Time{})
	require.NoError(t, err)
	forged := honest
	forged.Token.Number, forged.Token.Holder = token.MaxNumber, "mallory"

	// The twin compares numbers without verifying them.
	var naive guard.Memory
	require.NoError(t, naive.Admit(t.Context(), forged.Token))
	require.ErrorIs(t, naive.Admit(t.Context(), honest.Token), guard.ErrStale)

	var marks guard.Memory
	admit := func(s signature.Signed) error {
		if err := r.Verify(s); err != nil {
			return err
		}
		return marks.Admit(t.Context(), s.Token)
	}
	for _, s := range []signature.Signed{forged, {Token: forged.Token}} {
		err := admit(s)
		require.ErrorIs(t, err, token.ErrBadSignature)
		require.True(t, guard.IsRefusal(err))
	}
	require.NoError(t, admit(honest))
	require.Equal(t, honest.Token.Number, marks.Mark(account.Resource).Number)
}

func TestASignatureIsOfOneTokenOnly(t *testing.T) {
	t.Parallel()
	keys := []signature.Key{key("2026-11", 'a'), key("2026-10", 'b')}
	r := keyring(t, keys...)
	until := time.Now().Add(time.Hour)
	honest, err := r.Sign(account, until)
	require.NoError(t, err)
	endless, err := r.Sign(account, time.Time{})
	require.NoError(t, err)
	for name, test := range map[string]struct {
		forge  func(s *signature.Signed)
		reason signature.Reason
	}{
		"the greatest number":                 {func(s *signature.Signed) { s.Token.Number = token.MaxNumber }, signature.Wrong},
		"the next number":                     {func(s *signature.Signed) { s.Token.Number++ }, signature.Wrong},
		"another resource":                    {func(s *signature.Signed) { s.Token.Resource = "account/43" }, signature.Wrong},
		"another holder":                      {func(s *signature.Signed) { s.Token.Holder = "c2f2" }, signature.Wrong},
		"names that were exchanged":           {func(s *signature.Signed) { s.Token.Resource, s.Token.Holder = s.Token.Holder, s.Token.Resource }, signature.Wrong},
		"a letter moved to the holder":        {func(s *signature.Signed) { s.Token.Resource, s.Token.Holder = "account/4", "2c2f1" }, signature.Wrong},
		"a digit moved to the resource":       {func(s *signature.Signed) { s.Token.Number, s.Token.Resource = 3, "3account/42" }, signature.Wrong},
		"a line moved to the holder":          {func(s *signature.Signed) { s.Token.Resource, s.Token.Holder = "", "account/42\nc2f1" }, signature.Wrong},
		"names that became one":               {func(s *signature.Signed) { s.Token.Resource, s.Token.Holder = "account/42\nc2f1", "" }, signature.Wrong},
		"a later end":                         {func(s *signature.Signed) { s.Until++ }, signature.Wrong},
		"no end":                              {func(s *signature.Signed) { s.Until = 0 }, signature.Wrong},
		"the code of another end":             {func(s *signature.Signed) { s.Code = endless.Code }, signature.Wrong},
		"the first bit of the code":           {func(s *signature.Signed) { s.Code[0] ^= 0x80 }, signature.Wrong},
		"the last bit of the code":            {func(s *signature.Signed) { s.Code[31] ^= 1 }, signature.Wrong},
		"a code that is cut":                  {func(s *signature.Signed) { clear(s.Code[16:]) }, signature.Wrong},
		"a code of zeros":                     {func(s *signature.Signed) { clear(s.Code[:]) }, signature.Wrong},
		"the id of another key":               {func(s *signature.Signed) { s.Key = "2026-10" }, signature.Wrong},
		"the id of a key that is unknown":     {func(s *signature.Signed) { s.Key = "2026-09" }, signature.UnknownKey},
		"an id in other letters":              {func(s *signature.Signed) { s.Key = "2026-11 " }, signature.UnknownKey},
		"no key":                              {func(s *signature.Signed) { s.Key = "" }, signature.Unsigned},
		"no signature":                        {func(s *signature.Signed) { *s = signature.Signed{Token: s.Token} }, signature.Unsigned},
		"nothing":                             {func(s *signature.Signed) { *s = signature.Signed{} }, signature.Unsigned},
		"an end that makes a wrong signature": {func(s *signature.Signed) { s.Until = 1 }, signature.Wrong},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forged := honest
			test.forge(&forged)
			require.NotEqual(t, honest, forged)
			err := r.Verify(forged)
			refused(t, err, test.reason)
			require.Equal(t, &signature.Error{Token: forged.Token, Key: forged.Key, Reason: test.reason}, err)
			require.NoError(t, r.Verify(honest))
		})
	}
}

func TestAnIncompleteTokenIsNotSigned(t *testing.T) {
	t.Parallel()
	r := keyring(t, key("2026-11", 'a'))
	for _, tok := range []token.Token{
		{}, {Resource: "r", Number: 1}, {Number: 1, Holder: "h"}, {Resource: "r", Holder: "h"},
		{Resource: "r", Number: token.MaxNumber + 1, Holder: "h"}, {Resource: "r\ns", Number: 1, Holder: "h"},
		{Resource: "r", Number: 1, Holder: strings.Repeat("h", token.MaxNameBytes+1)},
	} {
		s, err := r.Sign(tok, time.Time{})
		require.ErrorIs(t, err, token.ErrInvalid)
		require.Zero(t, s)
	}
}

func TestTheZeroKeyringAcceptsNothing(t *testing.T) {
	t.Parallel()
	var zero signature.Keyring
	_, err := zero.Sign(account, time.Time{})
	require.ErrorContains(t, err, "needs a key")
	s, err := keyring(t, key("2026-11", 'a')).Sign(account, time.Time{})
	require.NoError(t, err)
	refused(t, zero.Verify(s), signature.UnknownKey)
	refused(t, zero.Verify(signature.Signed{}), signature.Unsigned)
}

func TestASignatureEndsAndItsTokenDoesNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := keyring(t, key("2026-11", 'a'))
		endless, err := r.Sign(account, time.Time{})
		require.NoError(t, err)
		s, err := r.Sign(account, time.Now().Add(10*time.Second+time.Second/2))
		require.NoError(t, err)
		require.Equal(t, time.Now().Unix()+10, s.Until, "rounded down")

		time.Sleep(10*time.Second - 1)
		require.NoError(t, r.Verify(s))
		time.Sleep(time.Nanosecond)
		refused(t, r.Verify(s), signature.Expired)
		require.NoError(t, r.Verify(endless))
		require.NoError(t, s.Token.Validate())

		wrong := s
		wrong.Code[0]++
		refused(t, r.Verify(wrong), signature.Wrong) // an expiry is reported only for a correct code
	})
}

func TestTheEndHasBounds(t *testing.T) {
	t.Parallel()
	r := keyring(t, key("2026-11", 'a'))
	for _, until := range []time.Time{
		time.Unix(0, 999_999_999), time.Unix(-1, 0), time.Unix(token.MaxNumber+1, 0), time.Time{}.Add(1),
	} {
		s, err := r.Sign(account, until)
		require.ErrorIs(t, err, token.ErrInvalid, until)
		require.Zero(t, s)
	}
	latest, err := r.Sign(account, time.Unix(token.MaxNumber, 0))
	require.NoError(t, err)
	require.NoError(t, r.Verify(latest))
	past, err := r.Sign(account, time.Unix(1, 0))
	require.NoError(t, err)
	refused(t, r.Verify(past), signature.Expired)
}

func TestKeysAreChangedWithoutAGap(t *testing.T) {
	t.Parallel()
	last, next := key("2026-10", 'a'), key("2026-11", 'b')
	issuer, service := keyring(t, last), keyring(t, last)
	signed := func() signature.Signed {
		s, err := issuer.Sign(account, time.Time{})
		require.NoError(t, err)
		return s
	}
	old := signed()
	require.NoError(t, service.Verify(old))

	require.NoError(t, service.Replace(last, next)) // all can verify the new key
	require.NoError(t, issuer.Replace(last, next))
	require.Equal(t, "2026-10", signed().Key)
	require.NoError(t, service.Verify(signed()))

	require.NoError(t, issuer.Replace(next, last)) // all sign with it
	require.Equal(t, "2026-11", signed().Key)
	require.NoError(t, service.Verify(signed()))
	require.NoError(t, service.Verify(old))

	require.NoError(t, service.Replace(next)) // the old one is left out
	require.NoError(t, service.Verify(signed()))
	refused(t, service.Verify(old), signature.UnknownKey)

	// Reusing an id for another secret does not make old signatures valid again.
	require.NoError(t, service.Replace(key("2026-10", 'c')))
	refused(t, service.Verify(old), signature.Wrong)
}

func TestInvalidKeysAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	good := key("2026-11", 'a')
	r := keyring(t, good)
	s, err := r.Sign(account, time.Time{})
	require.NoError(t, err)
	for name, keys := range map[string][]signature.Key{
		"none":               {},
		"the zero key":       {{}},
		"a secret too short": {{ID: "b", Secret: good.Secret[1:]}},
		"a bad one after":    {key("b", 'b'), {ID: "c"}},
		"two keys of one id": {good, key("b", 'b'), key("2026-11", 'c')},
		"the same key twice": {good, good},
	} {
		require.Error(t, r.Replace(keys...), name)
		none, err := signature.New(keys...)
		require.Error(t, err, name)
		require.Nil(t, none)
		require.NoError(t, r.Verify(s), name)
	}
}

func TestASecretIsCopied(t *testing.T) {
	t.Parallel()
	k := key("2026-11", 'a')
	r := keyring(t, k)
	clear(k.Secret) // wiped, as it should be
	s, err := r.Sign(account, time.Time{})
	require.NoError(t, err)
	require.NoError(t, keyring(t, key("2026-11", 'a')).Verify(s))
	refused(t, keyring(t, k).Verify(s), signature.Wrong)
}

// A concurrent call uses all the old keys or all the new ones. Both sets contain both
// ids, with exchanged secrets, so a mixture would reject a signature.
func TestKeysAreReplacedWhileInUse(t *testing.T) {
	t.Parallel()
	sets := [2][]signature.Key{{key("x", 'a'), key("y", 'b')}, {key("x", 'b'), key("y", 'a')}}
	r := keyring(t, sets[0]...)
	verifiers := [2]*signature.Keyring{keyring(t, sets[0]...), keyring(t, sets[1]...)}
	stop := make(chan struct{})
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for range 2000 {
				s, err := r.Sign(account, time.Time{})
				if !assert.NoError(t, err) || !assert.Equal(t, "x", s.Key) {
					return
				}
				first, second := verifiers[0].Verify(s), verifiers[1].Verify(s)
				if !assert.NotEqual(t, first == nil, second == nil, "exactly one set of keys made it") {
					return
				}
			}
		})
	}
	var replacer sync.WaitGroup
	replacer.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
				assert.NoError(t, r.Replace(sets[i%2]...))
			}
		}
	})
	users.Wait()
	close(stop)
	replacer.Wait()
}
