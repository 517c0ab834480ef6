package seal_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

func TestWhatIsSealedVerifies(t *testing.T) {
	t.Parallel()
	r := ring(t, key("2026-11", 'a'), key("2026-10", 'b'))
	for name, tok := range map[string]token.Token{
		"a token":             account,
		"names that are long": {Resource: strings.Repeat("r", token.MaxName), Number: token.MaxNumber, Holder: strings.Repeat("ö", 100)},
		"names of one letter": {Resource: "r", Number: 1, Holder: "h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := r.Seal(tok, time.Time{})
			require.NoError(t, err)
			require.Equal(t, tok, s.Token)
			require.Equal(t, "2026-11", s.Key, "the first key seals")
			require.Zero(t, s.Until)
			require.NoError(t, r.Verify(s))
			again, err := r.Seal(tok, time.Time{})
			require.NoError(t, err)
			require.Equal(t, s, again)
			require.True(t, s == again, "comparable, and the same each time")
		})
	}
}

// hazard W2
func TestAForgedNumberLocksNobodyOut(t *testing.T) {
	t.Parallel()
	r := ring(t, key("2026-11", 'a'))
	honest, err := r.Seal(account, time.Time{})
	require.NoError(t, err)
	forged := honest
	forged.Token.Number, forged.Token.Holder = token.MaxNumber, "mallory"

	// The twin compares numbers, and believes the one that is sent.
	var naive guard.Memory
	require.NoError(t, naive.Admit(t.Context(), forged.Token))
	require.ErrorIs(t, naive.Admit(t.Context(), honest.Token), guard.ErrStale)

	var marks guard.Memory
	admit := func(s seal.Sealed) error {
		if err := r.Verify(s); err != nil {
			return err
		}
		return marks.Admit(t.Context(), s.Token)
	}
	for _, s := range []seal.Sealed{forged, {Token: forged.Token}} {
		err := admit(s)
		require.ErrorIs(t, err, token.ErrSeal)
		require.True(t, guard.Refusal(err))
	}
	require.NoError(t, admit(honest))
	require.Equal(t, honest.Token.Number, marks.Mark(account.Resource).Number)
}

func TestASealIsOfOneTokenOnly(t *testing.T) {
	t.Parallel()
	keys := []seal.Key{key("2026-11", 'a'), key("2026-10", 'b')}
	r := ring(t, keys...)
	until := time.Now().Add(time.Hour)
	honest, err := r.Seal(account, until)
	require.NoError(t, err)
	endless, err := r.Seal(account, time.Time{})
	require.NoError(t, err)
	for name, test := range map[string]struct {
		forge  func(s *seal.Sealed)
		reason seal.Reason
	}{
		"the greatest number":             {func(s *seal.Sealed) { s.Token.Number = token.MaxNumber }, seal.Wrong},
		"the next number":                 {func(s *seal.Sealed) { s.Token.Number++ }, seal.Wrong},
		"another resource":                {func(s *seal.Sealed) { s.Token.Resource = "account/43" }, seal.Wrong},
		"another holder":                  {func(s *seal.Sealed) { s.Token.Holder = "c2f2" }, seal.Wrong},
		"names that were exchanged":       {func(s *seal.Sealed) { s.Token.Resource, s.Token.Holder = s.Token.Holder, s.Token.Resource }, seal.Wrong},
		"a letter moved to the holder":    {func(s *seal.Sealed) { s.Token.Resource, s.Token.Holder = "account/4", "2c2f1" }, seal.Wrong},
		"a digit moved to the resource":   {func(s *seal.Sealed) { s.Token.Number, s.Token.Resource = 3, "3account/42" }, seal.Wrong},
		"a line moved to the holder":      {func(s *seal.Sealed) { s.Token.Resource, s.Token.Holder = "", "account/42\nc2f1" }, seal.Wrong},
		"names that became one":           {func(s *seal.Sealed) { s.Token.Resource, s.Token.Holder = "account/42\nc2f1", "" }, seal.Wrong},
		"a later end":                     {func(s *seal.Sealed) { s.Until++ }, seal.Wrong},
		"no end":                          {func(s *seal.Sealed) { s.Until = 0 }, seal.Wrong},
		"the code of another end":         {func(s *seal.Sealed) { s.Code = endless.Code }, seal.Wrong},
		"the first bit of the code":       {func(s *seal.Sealed) { s.Code[0] ^= 0x80 }, seal.Wrong},
		"the last bit of the code":        {func(s *seal.Sealed) { s.Code[31] ^= 1 }, seal.Wrong},
		"a code that is cut":              {func(s *seal.Sealed) { clear(s.Code[16:]) }, seal.Wrong},
		"a code of zeros":                 {func(s *seal.Sealed) { clear(s.Code[:]) }, seal.Wrong},
		"the id of another key":           {func(s *seal.Sealed) { s.Key = "2026-10" }, seal.Wrong},
		"the id of a key that is unknown": {func(s *seal.Sealed) { s.Key = "2026-09" }, seal.UnknownKey},
		"an id in other letters":          {func(s *seal.Sealed) { s.Key = "2026-11 " }, seal.UnknownKey},
		"no key":                          {func(s *seal.Sealed) { s.Key = "" }, seal.Unsealed},
		"no seal":                         {func(s *seal.Sealed) { *s = seal.Sealed{Token: s.Token} }, seal.Unsealed},
		"nothing":                         {func(s *seal.Sealed) { *s = seal.Sealed{} }, seal.Unsealed},
		"an end that makes a wrong seal":  {func(s *seal.Sealed) { s.Until = 1 }, seal.Wrong},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forged := honest
			test.forge(&forged)
			require.NotEqual(t, honest, forged)
			err := r.Verify(forged)
			refused(t, err, test.reason)
			require.Equal(t, &seal.Error{Token: forged.Token, Key: forged.Key, Reason: test.reason}, err)
			require.NoError(t, r.Verify(honest))
		})
	}
}

func TestAnotherSecretOfTheSameIDIsWrong(t *testing.T) {
	t.Parallel()
	s, err := ring(t, key("2026-11", 'b')).Seal(account, time.Time{})
	require.NoError(t, err)
	refused(t, ring(t, key("2026-11", 'a')).Verify(s), seal.Wrong)
}

func TestAnIncompleteTokenIsNotSealed(t *testing.T) {
	t.Parallel()
	r := ring(t, key("2026-11", 'a'))
	for _, tok := range []token.Token{
		{}, {Resource: "r", Number: 1}, {Number: 1, Holder: "h"}, {Resource: "r", Holder: "h"},
		{Resource: "r", Number: token.MaxNumber + 1, Holder: "h"}, {Resource: "r\ns", Number: 1, Holder: "h"},
		{Resource: "r", Number: 1, Holder: strings.Repeat("h", token.MaxName+1)},
	} {
		s, err := r.Seal(tok, time.Time{})
		require.ErrorIs(t, err, token.ErrInvalid)
		require.Zero(t, s)
	}
}

func TestTheZeroRingAcceptsNothing(t *testing.T) {
	t.Parallel()
	var zero seal.Ring
	_, err := zero.Seal(account, time.Time{})
	require.ErrorContains(t, err, "needs a key")
	s, err := ring(t, key("2026-11", 'a')).Seal(account, time.Time{})
	require.NoError(t, err)
	refused(t, zero.Verify(s), seal.UnknownKey)
	refused(t, zero.Verify(seal.Sealed{}), seal.Unsealed)
}

func TestASealEndsAndItsTokenDoesNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := ring(t, key("2026-11", 'a'))
		endless, err := r.Seal(account, time.Time{})
		require.NoError(t, err)
		s, err := r.Seal(account, time.Now().Add(10*time.Second+time.Second/2))
		require.NoError(t, err)
		require.Equal(t, time.Now().Unix()+10, s.Until, "rounded down")

		time.Sleep(10*time.Second - 1)
		require.NoError(t, r.Verify(s))
		time.Sleep(time.Nanosecond)
		refused(t, r.Verify(s), seal.Expired)
		require.NoError(t, r.Verify(endless))
		require.NoError(t, s.Token.Check())

		wrong := s
		wrong.Code[0]++
		refused(t, r.Verify(wrong), seal.Wrong) // only of what was right is it said that it has ended
	})
}

func TestTheEndHasBounds(t *testing.T) {
	t.Parallel()
	r := ring(t, key("2026-11", 'a'))
	for _, until := range []time.Time{
		time.Unix(0, 999_999_999), time.Unix(-1, 0), time.Unix(token.MaxNumber+1, 0), time.Time{}.Add(1),
	} {
		s, err := r.Seal(account, until)
		require.ErrorIs(t, err, token.ErrInvalid, until)
		require.Zero(t, s)
	}
	latest, err := r.Seal(account, time.Unix(token.MaxNumber, 0))
	require.NoError(t, err)
	require.NoError(t, r.Verify(latest))
	past, err := r.Seal(account, time.Unix(1, 0))
	require.NoError(t, err)
	refused(t, r.Verify(past), seal.Expired)
}
