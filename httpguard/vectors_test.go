package httpguard_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/token"
)

// vectors is docs/vectors.json; docs/http.md describes its parts.
type vectors struct {
	About  string
	Keys   []signature.Key
	Parse  []parseVector
	Format []formatVector
	Sign   []signVector
	Verify []verifyVector
	Admit  []admitVector
	Once   []onceVector
}

// A vector's check compares it with the code's result. Its mutants are vectors with
// another expectation: a check that passes for one of them compares nothing.
type (
	tokenVector struct {
		Resource, Holder, Key string
		Number                int64 `json:",string"`
		Until                 int64 `json:",string"`
		Code                  hexText
	}
	parseVector struct {
		Name, Malformed string
		Field           []string
		Tokens          []tokenVector
	}
	formatVector struct {
		Name, Malformed, Text string
		Tokens                []tokenVector
	}
	signVector struct {
		Name, Key, Input, Text string
		Token                  tokenVector
		Until                  int64 `json:",string"`
		Code                   hexText
	}
	verifyVector struct {
		Name, Text string
		Keys       []string
		Now        int64 `json:",string"`
		Valid      bool
	}
	admitVector struct {
		Name, Method     string
		Resources, Field []string
		Keys             []string
		Marks, After     []tokenVector
		Store, Write     string
		Status           int
		Type             string
	}
)

// hexText is bytes that JSON contains as hexadecimal text.
type hexText string

func (h *hexText) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	*h = hexText(raw)
	return err
}

func readVectors(t testing.TB) vectors {
	t.Helper()
	text, err := os.ReadFile("../docs/vectors.json")
	require.NoError(t, err)
	var all vectors
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields() // an unknown field would be a check that never runs
	require.NoError(t, dec.Decode(&all))
	return all
}

func (v tokenVector) token() token.Token { return tok(v.Resource, v.Number, v.Holder) }

func (v tokenVector) signed() signature.Signed {
	s := signature.Signed{Token: v.token(), Key: v.Key, Until: v.Until}
	if len(v.Code) == len(s.Code) { // Signed holds no other length
		copy(s.Code[:], v.Code)
	}
	return s
}

func tokensOf(all []tokenVector) (toks []token.Token, signed []signature.Signed) {
	for _, v := range all {
		toks, signed = append(toks, v.token()), append(signed, v.signed())
	}
	return toks, signed
}

// keyring returns a keyring with the keys of the given ids, in their order.
func (all vectors) keyring(ids []string) (*signature.Keyring, error) {
	var keys []signature.Key
	for _, id := range ids {
		i := slices.IndexFunc(all.Keys, func(k signature.Key) bool { return k.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("no key %s", id)
		}
		keys = append(keys, all.Keys[i])
	}
	return signature.New(keys...)
}

// differ returns an error if got differs from want.
func differ(what string, want, got any) error {
	if reflect.DeepEqual(want, got) {
		return nil
	}
	return fmt.Errorf("%s: want %v, got %v", what, want, got)
}

// broken returns nil if err names the rule.
func broken(rule string, err error) error {
	var header *httpguard.HeaderError
	if !errors.Is(err, token.ErrInvalid) || !strings.Contains(err.Error(), rule) ||
		!errors.As(err, &header) || !strings.HasPrefix(err.Error(), "httpguard: Fencing-Token: ") {
		return fmt.Errorf("want malformed: %s, got error %v", rule, err)
	}
	return nil
}

func (v parseVector) check() error {
	signed, err := httpguard.ParseSigned(v.Field)
	toks, plain := httpguard.Parse(v.Field)
	if v.Malformed != "" {
		return errors.Join(broken(v.Malformed, err), broken(v.Malformed, plain), differ("tokens", 0, len(toks)+len(signed)))
	}
	wantToks, wantSigned := tokensOf(v.Tokens)
	return errors.Join(err, plain, differ("tokens", wantToks, toks), differ("signatures", wantSigned, signed))
}

func (v parseVector) mutants() []parseVector {
	rule, toks := v, v
	rule.Malformed += "?"
	toks.Malformed, toks.Tokens = "", append(slices.Clone(v.Tokens), tokenVector{Resource: "one more"})
	return []parseVector{rule, toks}
}

func (v formatVector) check() error {
	toks, signed := tokensOf(v.Tokens)
	text, err := httpguard.FormatSigned(signed...)
	if v.Malformed != "" {
		return errors.Join(broken(v.Malformed, err), differ("text", "", text))
	}
	if !slices.ContainsFunc(signed, func(s signature.Signed) bool { return s.Key != "" }) {
		plain, err := httpguard.Format(toks...)
		if err := errors.Join(err, differ("text without signatures", v.Text, plain)); err != nil {
			return err
		}
	}
	back, unread := httpguard.ParseSigned([]string{text})
	return errors.Join(err, unread, differ("text", v.Text, text), differ("the tokens, read back", signed, back))
}

func (v formatVector) mutants() []formatVector {
	rule, text := v, v
	rule.Malformed += "?"
	text.Malformed, text.Text = "", v.Text+"?"
	return []formatVector{rule, text}
}

// check computes the code as docs/http.md describes, first without our package.
func (v signVector) check(all vectors) error {
	until, at := "-", time.Time{}
	if v.Until != 0 {
		until, at = strconv.FormatInt(v.Until, 10), time.Unix(v.Until, 0)
	}
	tok := v.Token.token()
	input := strings.Join([]string{
		"fencepost-signature-1", v.Key, strconv.FormatInt(tok.Number, 10), tok.Resource, tok.Holder, until,
	}, "\n")
	i := slices.IndexFunc(all.Keys, func(k signature.Key) bool { return k.ID == v.Key })
	code := hmac.New(sha256.New, all.Keys[i].Secret)
	code.Write([]byte(v.Input))
	keyring, err := all.keyring([]string{v.Key})
	if err != nil {
		return err
	}
	signed, err := keyring.Sign(tok, at)
	if err != nil {
		return err
	}
	text, err := signed.MarshalText()
	return errors.Join(err, differ("input", v.Input, input), differ("code", v.Code, hexText(code.Sum(nil))),
		differ("our signature", v.Text, string(text)))
}

func (v signVector) mutants() []signVector {
	input, code, text := v, v, v
	input.Input += "\n"
	code.Code += "\x00"
	text.Text += " "
	return []signVector{input, code, text}
}

func (v verifyVector) check(all vectors) error {
	time.Sleep(time.Until(time.Unix(v.Now, 0))) // in a bubble
	keyring, err := all.keyring(v.Keys)
	if err != nil {
		return err
	}
	var signed signature.Signed
	if err := signed.UnmarshalText([]byte(v.Text)); err != nil {
		return err
	}
	err = keyring.Verify(signed)
	if err != nil && !errors.Is(err, token.ErrBadSignature) {
		return err
	}
	return differ("valid", v.Valid, err == nil)
}

// checks binds mutants to their check.
func checks[V any](mutants []V, check func(V) error) (all []func() error) {
	for _, v := range mutants {
		all = append(all, func() error { return check(v) })
	}
	return all
}

func TestVectors(t *testing.T) {
	t.Parallel()
	all := readVectors(t)
	named := map[string]bool{}
	once := func(kind, name string) string {
		name = kind + ": " + name
		require.False(t, named[name], "two vectors: %s", name)
		named[name] = true
		return name
	}
	run := func(kind, name string, check func() error, mutants []func() error) {
		t.Run(once(kind, name), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // verify waits for its time
				require.NoError(t, check())
				for _, mutant := range mutants {
					require.Error(t, mutant(), "nothing was compared")
				}
			})
		})
	}
	for _, v := range all.Parse {
		run("parse", v.Name, v.check, checks(v.mutants(), parseVector.check))
	}
	for _, v := range all.Format {
		run("format", v.Name, v.check, checks(v.mutants(), formatVector.check))
	}
	for _, v := range all.Sign {
		check := func(v signVector) error { return v.check(all) }
		run("signature", v.Name, func() error { return check(v) }, checks(v.mutants(), check))
	}
	for _, v := range all.Verify {
		check := func(v verifyVector) error { return v.check(all) }
		mutant := v
		mutant.Valid = !v.Valid
		run("verify", v.Name, func() error { return check(v) }, checks([]verifyVector{mutant}, check))
	}
	bothVersions(t, func(t *testing.T, two bool) {
		var board switchboard
		s := serve(t, &board, two)
		for _, v := range all.Admit {
			t.Run("judge: "+v.Name, func(t *testing.T) {
				s := site{t, s.Server}
				require.NoError(t, v.check(all, &board, s))
				for _, mutant := range v.mutants() {
					require.Error(t, mutant.check(all, &board, s), "nothing was compared")
				}
			})
		}
	})
	for _, v := range all.Admit {
		once("judge", v.Name)
	}
}

// switchboard is the handler of one vector after the other.
type switchboard struct{ http.Handler }

func (v admitVector) check(all vectors, board *switchboard, s site) error {
	var marks guard.Memory
	for _, mark := range v.Marks {
		if err := marks.Admit(s.t.Context(), mark.token()); err != nil {
			return err
		}
	}
	m := httpguard.Middleware{Store: &marks, InFlight: new(httpguard.InFlight)}
	m.Resources = func(*http.Request) ([]string, error) { return v.Resources, nil }
	if v.Store == "down" {
		m.Store = storeDown("down in a vector")
	}
	if v.Keys != nil {
		keyring, err := all.keyring(v.Keys)
		if err != nil {
			return err
		}
		m.Keyring = keyring
	}
	var ran atomic.Bool
	var handed []token.Token
	board.Handler = m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handed = token.All(r.Context())
		ran.Store(true)
		v.write(w, r)
	}))
	got := s.do(v.Method, "/", v.Field...)
	if major := map[bool]int{false: 1, true: 2}[s.EnableHTTP2]; got.major != major {
		return fmt.Errorf("HTTP/%d, want %d", got.major, major)
	}
	if sent, err := httpguard.Parse(v.Field); ran.Load() && (err != nil || !sameTokens(sent, handed)) {
		return fmt.Errorf("the handler got %v of %v", handed, v.Field)
	}
	return errors.Join(v.answered(s.t, got), v.raised(&marks),
		differ("the handler ran", v.Status == http.StatusNoContent || v.Write != "", ran.Load()))
}

// sameTokens compares without the order: a context has none.
func sameTokens(sent, handed []token.Token) bool {
	return len(sent) == len(handed) && !slices.ContainsFunc(sent, func(tok token.Token) bool { return !slices.Contains(handed, tok) })
}

// write is the handler's guarded write, with the outcome that v gives.
func (v admitVector) write(w http.ResponseWriter, r *http.Request) {
	switch v.Write {
	case "":
		w.WriteHeader(http.StatusNoContent)
	case "unknown":
		httpguard.Error(w, r, fmt.Errorf("in a vector: %w", guard.ErrUnknown))
	case "retryable":
		httpguard.Error(w, r, fmt.Errorf("in a vector: %w", guard.ErrRetryable))
	case "stale":
		newer := guard.Mark{Number: token.MaxNumber, Holder: "newer"}
		httpguard.Error(w, r, newer.Admits(token.All(r.Context())[0]))
	case "missing":
		_, err := token.FromContext(r.Context(), "one more")
		httpguard.Error(w, r, err)
	}
}

func (v admitVector) answered(t *testing.T, got reply) error {
	if got.status != v.Status {
		return fmt.Errorf("want status %d, got %d %s", v.Status, got.status, got.body)
	}
	retry := ""
	if v.Status == http.StatusServiceUnavailable {
		retry = "1"
	}
	err := differ("Retry-After", retry, got.header.Get("Retry-After"))
	switch {
	case v.Status == http.StatusNoContent:
		return errors.Join(err, differ("type", v.Type, ""))
	case v.Method == http.MethodHead: // has no body: only the status is compared
		return errors.Join(err, differ("Content-Type", "application/problem+json", got.header.Get("Content-Type")),
			differ("Cache-Control", "no-store", got.header.Get("Cache-Control")))
	}
	return errors.Join(err, differ("type", v.Type, got.problem(t)["type"]))
}

// raised compares the marks of all resources in the vector.
func (v admitVector) raised(marks *guard.Memory) error {
	want := map[string]guard.Mark{"one more": {}}
	for _, resource := range v.Resources {
		want[resource] = guard.Mark{}
	}
	if toks, err := httpguard.Parse(v.Field); err == nil {
		for _, tok := range toks {
			want[tok.Resource] = guard.Mark{}
		}
	}
	for _, mark := range append(slices.Clone(v.Marks), v.After...) {
		want[mark.Resource] = guard.Mark{Number: mark.Number, Holder: mark.Holder}
	}
	var errs []error
	for resource, mark := range want {
		errs = append(errs, differ("mark of "+resource, mark, marks.Mark(resource)))
	}
	return errors.Join(errs...)
}

func (v admitVector) mutants() []admitVector {
	status, after := v, v
	status.Status++
	after.After = append(slices.Clone(v.After), tokenVector{Resource: "one more", Number: 1, Holder: "a"})
	all := []admitVector{status, after}
	if v.Method != http.MethodHead {
		typ := v
		typ.Type += "?"
		all = append(all, typ)
	}
	return all
}
