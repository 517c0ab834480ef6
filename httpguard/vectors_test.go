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
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

// vectors is docs/vectors.json; docs/http.md says what its parts mean.
type vectors struct {
	About  string
	Keys   []seal.Key
	Parse  []parseVector
	Format []formatVector
	Seal   []sealVector
	Verify []verifyVector
	Judge  []judgeVector
}

// A vector's check compares it with what the code does. Its mutants are vectors
// with another expectation: a check that lets one of them pass compares nothing.
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
	sealVector struct {
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
	judgeVector struct {
		Name, Method     string
		Resources, Field []string
		Keys             []string
		Marks, After     []tokenVector
		Store, Write     string
		Status           int
		Type             string
	}
)

// hexText is bytes that JSON has as hexadecimal text.
type hexText string

func (h *hexText) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	*h = hexText(raw)
	return err
}

func readVectors(t *testing.T) vectors {
	t.Helper()
	text, err := os.ReadFile("../docs/vectors.json")
	require.NoError(t, err)
	var all vectors
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields() // what nobody reads, nobody runs
	require.NoError(t, dec.Decode(&all))
	return all
}

func (v tokenVector) token() token.Token { return tok(v.Resource, v.Number, v.Holder) }

func (v tokenVector) sealed() seal.Sealed {
	s := seal.Sealed{Token: v.token(), Key: v.Key, Until: v.Until}
	if len(v.Code) == len(s.Code) { // ours keeps no other
		copy(s.Code[:], v.Code)
	}
	return s
}

func tokensOf(all []tokenVector) (toks []token.Token, sealed []seal.Sealed) {
	for _, v := range all {
		toks, sealed = append(toks, v.token()), append(sealed, v.sealed())
	}
	return toks, sealed
}

// ring has the keys of the given ids, in their order.
func (all vectors) ring(ids []string) (*seal.Ring, error) {
	var keys []seal.Key
	for _, id := range ids {
		i := slices.IndexFunc(all.Keys, func(k seal.Key) bool { return k.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("no key %s", id)
		}
		keys = append(keys, all.Keys[i])
	}
	return seal.New(keys...)
}

// differ is an error if got is not what was wanted.
func differ(what string, want, got any) error {
	if reflect.DeepEqual(want, got) {
		return nil
	}
	return fmt.Errorf("%s: want %v, got %v", what, want, got)
}

// broken is nil if err says that rule is broken.
func broken(rule string, err error) error {
	if !errors.Is(err, token.ErrInvalid) || !strings.Contains(err.Error(), rule) {
		return fmt.Errorf("want malformed: %s, got error %v", rule, err)
	}
	return nil
}

func (v parseVector) check() error {
	sealed, err := httpguard.ParseSealed(v.Field)
	toks, plain := httpguard.Parse(v.Field)
	if v.Malformed != "" {
		return errors.Join(broken(v.Malformed, err), broken(v.Malformed, plain))
	}
	wantToks, wantSealed := tokensOf(v.Tokens)
	return errors.Join(err, plain, differ("tokens", wantToks, toks), differ("seals", wantSealed, sealed))
}

func (v parseVector) mutants() []parseVector {
	rule, toks := v, v
	rule.Malformed += "?"
	toks.Malformed, toks.Tokens = "", append(slices.Clone(v.Tokens), tokenVector{Resource: "one more"})
	return []parseVector{rule, toks}
}

func (v formatVector) check() error {
	toks, sealed := tokensOf(v.Tokens)
	text, err := httpguard.FormatSealed(sealed...)
	if v.Malformed != "" {
		return errors.Join(broken(v.Malformed, err), differ("text", "", text))
	}
	if !slices.ContainsFunc(sealed, func(s seal.Sealed) bool { return s.Key != "" }) {
		plain, err := httpguard.Format(toks...)
		if err := errors.Join(err, differ("text without seals", v.Text, plain)); err != nil {
			return err
		}
	}
	return errors.Join(err, differ("text", v.Text, text))
}

func (v formatVector) mutants() []formatVector {
	rule, text := v, v
	rule.Malformed += "?"
	text.Malformed, text.Text = "", v.Text+"?"
	return []formatVector{rule, text}
}

// check makes the code as docs/http.md says, without our package first.
func (v sealVector) check(all vectors) error {
	until, at := "-", time.Time{}
	if v.Until != 0 {
		until, at = strconv.FormatInt(v.Until, 10), time.Unix(v.Until, 0)
	}
	tok := v.Token.token()
	input := strings.Join([]string{
		"fencepost-seal-1", v.Key, strconv.FormatInt(tok.Number, 10), tok.Resource, tok.Holder, until,
	}, "\n")
	i := slices.IndexFunc(all.Keys, func(k seal.Key) bool { return k.ID == v.Key })
	code := hmac.New(sha256.New, all.Keys[i].Secret)
	code.Write([]byte(v.Input))
	ring, err := all.ring([]string{v.Key})
	if err != nil {
		return err
	}
	sealed, err := ring.Seal(tok, at)
	if err != nil {
		return err
	}
	text, err := sealed.MarshalText()
	return errors.Join(err, differ("input", v.Input, input), differ("code", v.Code, hexText(code.Sum(nil))),
		differ("our seal", v.Text, string(text)))
}

func (v sealVector) mutants() []sealVector {
	input, code, text := v, v, v
	input.Input += "\n"
	code.Code += "\x00"
	text.Text += " "
	return []sealVector{input, code, text}
}

func (v verifyVector) check(all vectors) error {
	time.Sleep(time.Until(time.Unix(v.Now, 0))) // in a bubble
	ring, err := all.ring(v.Keys)
	if err != nil {
		return err
	}
	var sealed seal.Sealed
	if err := sealed.UnmarshalText([]byte(v.Text)); err != nil {
		return err
	}
	err = ring.Verify(sealed)
	if err != nil && !errors.Is(err, token.ErrSeal) {
		return err
	}
	return differ("valid", v.Valid, err == nil)
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
	for _, v := range all.Parse {
		t.Run(once("parse", v.Name), func(t *testing.T) {
			t.Parallel()
			require.NoError(t, v.check())
			for _, mutant := range v.mutants() {
				require.Error(t, mutant.check(), "nothing was compared")
			}
		})
	}
	for _, v := range all.Format {
		t.Run(once("format", v.Name), func(t *testing.T) {
			t.Parallel()
			require.NoError(t, v.check())
			for _, mutant := range v.mutants() {
				require.Error(t, mutant.check(), "nothing was compared")
			}
		})
	}
	for _, v := range all.Seal {
		t.Run(once("seal", v.Name), func(t *testing.T) {
			t.Parallel()
			require.NoError(t, v.check(all))
			for _, mutant := range v.mutants() {
				require.Error(t, mutant.check(all), "nothing was compared")
			}
		})
	}
	for _, v := range all.Verify {
		t.Run(once("verify", v.Name), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				require.NoError(t, v.check(all))
				v.Valid = !v.Valid
				require.Error(t, v.check(all), "nothing was compared")
			})
		})
	}
	var board switchboard
	everyProtocol(t, func() http.Handler { return withRoot(&board) }, func(t *testing.T, s site) {
		for _, v := range all.Judge {
			t.Run("judge: "+v.Name, func(t *testing.T) {
				s := site{t, s.Server}
				require.NoError(t, v.check(all, &board, s))
				for _, mutant := range v.mutants() {
					require.Error(t, mutant.check(all, &board, s), "nothing was compared")
				}
			})
		}
	})
	for _, v := range all.Judge {
		once("judge", v.Name)
	}
}

// switchboard has a handler for every path that was asked for.
type switchboard struct {
	paths    sync.Map
	assigned atomic.Int64
}

func (b *switchboard) assign(h http.Handler) (path string) {
	path = fmt.Sprintf("/vectors/%d", b.assigned.Add(1))
	b.paths.Store(path, h)
	return path
}

func (b *switchboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h, ok := b.paths.Load(r.URL.Path); ok {
		h.(http.Handler).ServeHTTP(w, r)
	}
}

func (v judgeVector) check(all vectors, board *switchboard, s site) error {
	var marks guard.Memory
	for _, mark := range v.Marks {
		if err := marks.Admit(s.t.Context(), mark.token()); err != nil {
			return err
		}
	}
	m := httpguard.Middleware{Store: &marks, Window: new(httpguard.Window)}
	m.Resources = func(*http.Request) ([]string, error) { return v.Resources, nil }
	if v.Store == "down" {
		m.Store = storeDown("down in a vector")
	}
	if v.Keys != nil {
		ring, err := all.ring(v.Keys)
		if err != nil {
			return err
		}
		m.Seals = ring
	}
	var ran atomic.Bool
	path := board.assign(m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ran.Store(true)
		v.write(w, r)
	})))
	got := s.do(v.Method, path, v.Field...)
	return errors.Join(v.answered(s.t, got), v.raised(&marks),
		differ("the handler ran", v.Status == http.StatusNoContent || v.Write != "", ran.Load()))
}

// write is a guarded write of the handler that comes to what v says.
func (v judgeVector) write(w http.ResponseWriter, r *http.Request) {
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

func (v judgeVector) answered(t *testing.T, got reply) error {
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
	case v.Method == http.MethodHead: // has no body: the status must do
		return errors.Join(err, differ("Content-Type", "application/problem+json", got.header.Get("Content-Type")),
			differ("Cache-Control", "no-store", got.header.Get("Cache-Control")))
	}
	return errors.Join(err, differ("type", v.Type, got.problem(t)["type"]))
}

// raised compares the marks of all resources that are spoken of.
func (v judgeVector) raised(marks *guard.Memory) error {
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

func (v judgeVector) mutants() []judgeVector {
	status, after := v, v
	status.Status++
	after.After = append(slices.Clone(v.After), tokenVector{Resource: "one more", Number: 1, Holder: "a"})
	all := []judgeVector{status, after}
	if v.Method != http.MethodHead {
		typ := v
		typ.Type += "?"
		all = append(all, typ)
	}
	return all
}
