package signature_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/token"
)

func TestASignedIsPrintedWithoutItsCode(t *testing.T) {
	t.Parallel()
	r := keyring(t, key("2026-11", 'a'))
	s, err := r.Sign(account, time.Unix(1795167374, 0))
	require.NoError(t, err)
	require.Equal(t, "account/42#33 signed by 2026-11 until 2026-11-20T09:36:14Z", s.String())
	text := printed(t, s) + printed(t, &s)
	for _, verb := range verbs {
		text += fmt.Sprintf(verb, []signature.Signed{s}) + fmt.Sprintf(verb, map[string]*signature.Signed{"": &s})
	}
	require.Contains(t, text, s.String())
	silent(t, text, s.Code[:])

	endless, err := r.Sign(account, time.Time{})
	require.NoError(t, err)
	require.Equal(t, "account/42#33 signed by 2026-11", endless.String())
	require.Equal(t, "account/42#33", signature.Signed{Token: account}.String())

	// The twin is a struct of the same fields.
	type naive signature.Signed
	require.Contains(t, fmt.Sprint(naive(s)), fmt.Sprint(s.Code))
}

func TestAContextIsPrintedWithoutTheCode(t *testing.T) {
	t.Parallel()
	s, err := keyring(t, key("2026-11", 'a')).Sign(account, time.Time{})
	require.NoError(t, err)
	ctx := signature.NewContext(t.Context(), s)
	outer, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, ctx := range []context.Context{ctx, outer} {
		for _, verb := range []string{"%v", "%+v", "%#v"} {
			silent(t, fmt.Sprintf(verb, ctx), s.Code[:])
		}
	}
}

func TestAnErrorContainsNoCode(t *testing.T) {
	t.Parallel()
	r := keyring(t, key("2026-11", 'a'))
	right, err := r.Sign(account, time.Unix(1, 0))
	require.NoError(t, err)
	wrong := right
	wrong.Code[0] ^= 1
	for reason, s := range map[signature.Reason]signature.Signed{
		signature.Expired: right, signature.Wrong: wrong, signature.Unsigned: {Token: account},
		signature.UnknownKey: {Token: account, Key: "2026-10", Code: right.Code},
	} {
		err := r.Verify(s)
		refused(t, err, reason)
		require.NotErrorIs(t, err, token.ErrInvalid)
		silent(t, err.Error(), right.Code[:])
		silent(t, err.Error(), wrong.Code[:])
		silent(t, fmt.Sprintf("%#v %+v", err, err), right.Code[:])
	}
	require.EqualError(t, r.Verify(wrong), `signature: token account/42#33, key "2026-11": wrong`)
	require.EqualError(t, r.Verify(signature.Signed{Token: account}), `signature: token account/42#33: unsigned`)
}

func TestAnUnsignedTokenHasItsOwnText(t *testing.T) {
	t.Parallel()
	text, err := signature.Signed{Token: account}.MarshalText()
	require.NoError(t, err)
	require.Equal(t, `33;r="account/42";h="c2f1"`, string(text))
	var read signature.Signed
	require.NoError(t, read.UnmarshalText(text))
	require.Equal(t, signature.Signed{Token: account}, read)
}

func TestJSONHoldsASignatureAsAString(t *testing.T) {
	t.Parallel()
	type job struct{ Signed signature.Signed }
	s, err := keyring(t, key("2026-11", 'a')).Sign(account, time.Unix(1795169774, 0))
	require.NoError(t, err)
	text, err := json.Marshal(job{s})
	require.NoError(t, err)
	var read job
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, job{s}, read)
}

func TestASignatureThatCannotBeWrittenHasNoText(t *testing.T) {
	t.Parallel()
	good, err := keyring(t, key("2026-11", 'a')).Sign(account, time.Time{})
	require.NoError(t, err)
	for name, spoil := range map[string]func(*signature.Signed){
		"the zero token":            func(s *signature.Signed) { s.Token = token.Token{} },
		"a code without a key":      func(s *signature.Signed) { s.Key = "" },
		"an end without a key":      func(s *signature.Signed) { *s = signature.Signed{Token: account, Until: 1} },
		"a key that is no id":       func(s *signature.Signed) { s.Key = "2026 11" },
		"a negative end":            func(s *signature.Signed) { s.Until = -1 },
		"an end of sixteen digits":  func(s *signature.Signed) { s.Until = token.MaxNumber + 1 },
		"a key that is not in UTF8": func(s *signature.Signed) { s.Key = "\xff" },
	} {
		s := good
		spoil(&s)
		text, err := s.MarshalText()
		require.ErrorIs(t, err, token.ErrInvalid, name)
		require.Empty(t, text)
		silent(t, err.Error(), good.Code[:])
	}
}

func TestHostileTextIsRefusedWithoutRevealingIt(t *testing.T) {
	t.Parallel()
	before, err := keyring(t, key("2026-11", 'a')).Sign(account, time.Time{})
	require.NoError(t, err)
	good, err := before.MarshalText()
	require.NoError(t, err)
	for name, text := range map[string]string{
		"nothing":              "",
		"something after it":   string(good) + " x",
		"two of them":          string(good) + ", " + string(good),
		"a cut text":           string(good[:len(good)-2]),
		"no number":            string(good[2:]),
		"no resource":          strings.Replace(string(good), "r=", "q=", 1),
		"an empty resource":    strings.Replace(string(good), account.Resource, "", 1),
		"no key":               strings.Replace(string(good), "k=", "q=", 1),
		"no code":              strings.Replace(string(good), "s=", "q=", 1),
		"a line in a name":     strings.Replace(string(good), "account/42", "account\n42", 1),
		"a code in capitals":   strings.Replace(string(good), "s=", "S=", 1),
		"an end that is zero":  string(good) + ";x=0",
		"a key given again":    string(good) + `;k=1`,
		"a code that is a Key": string(good) + ";s",
	} {
		s := before
		err := s.UnmarshalText([]byte(text))
		require.ErrorIs(t, err, token.ErrInvalid, name)
		require.Equal(t, before, s)
		silent(t, err.Error(), before.Code[:])
	}
}

func TestAContextCarriesTheSignatureOfExactlyOneToken(t *testing.T) {
	t.Parallel()
	r := keyring(t, key("2026-11", 'a'))
	s, err := r.Sign(account, time.Time{})
	require.NoError(t, err)
	other, err := r.Sign(token.Token{Resource: "account/7", Number: 34, Holder: "c2f1"}, time.Time{})
	require.NoError(t, err)
	ctx := signature.NewContext(signature.NewContext(t.Context(), s), other)

	for _, want := range []signature.Signed{s, other} {
		tok, err := token.FromContext(ctx, want.Token.Resource)
		require.NoError(t, err)
		require.Equal(t, want.Token, tok)
		got, ok := signature.FromContext(ctx, tok)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	for name, change := range map[string]func(*token.Token){
		"another resource": func(tok *token.Token) { tok.Resource = "account/7" },
		"another number":   func(tok *token.Token) { tok.Number++ },
		"another holder":   func(tok *token.Token) { tok.Holder = "c2f2" },
		"nothing":          func(tok *token.Token) { *tok = token.Token{} },
	} {
		tok := account
		change(&tok)
		got, ok := signature.FromContext(ctx, tok)
		require.False(t, ok, name)
		require.Zero(t, got)
	}
	_, ok := signature.FromContext(t.Context(), account)
	require.False(t, ok)
}

// A newer token has replaced the signed one. A signature that is looked up by the
// resource would be sent with it.
func TestAnOlderSignatureIsNotGivenToANewerToken(t *testing.T) {
	t.Parallel()
	s, err := keyring(t, key("2026-11", 'a')).Sign(account, time.Time{})
	require.NoError(t, err)
	newer := token.Token{Resource: account.Resource, Number: 34, Holder: "d3a2"}
	for name, ctx := range map[string]context.Context{
		"a plain token":     token.NewContext(signature.NewContext(t.Context(), s), newer),
		"an unsigned token": signature.NewContext(signature.NewContext(t.Context(), s), signature.Signed{Token: newer}),
	} {
		tok, err := token.FromContext(ctx, account.Resource)
		require.NoError(t, err)
		require.Equal(t, newer, tok)
		_, ok := signature.FromContext(ctx, tok)
		require.False(t, ok, name)
	}
}

func TestOfTwoSignaturesOfATokenTheNewestIsFound(t *testing.T) {
	t.Parallel()
	old, err := keyring(t, key("2026-10", 'a')).Sign(account, time.Time{})
	require.NoError(t, err)
	renewed, err := keyring(t, key("2026-11", 'b')).Sign(account, time.Time{})
	require.NoError(t, err)
	ctx := signature.NewContext(signature.NewContext(t.Context(), old), renewed)
	got, ok := signature.FromContext(ctx, account)
	require.True(t, ok)
	require.Equal(t, renewed, got)
	require.Equal(t, []token.Token{account}, token.All(ctx))
}
