package httpguard

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/httpwrite"
)

// Idempotency reads the field Idempotency-Key of unsafe requests
// (draft-ietf-httpapi-idempotency-key-header-07) and makes a [guard.Unit] of each. The
// handler applies the unit with the method Once of its guard, and stores its [Answer] as
// the unit's result. A repeat of the request gets the stored answer, from any process and
// under any token, and the handler's function does not run again.
//
//	unit, _ := httpguard.UnitFromContext(r.Context())
//	stored, err := fence.Once(r.Context(), resource, unit, func(tx pgx.Tx) ([]byte, error) {
//		… // write
//		return httpguard.Answer{Status: http.StatusCreated, Body: receipt}.Encode(r.Context())
//	})
//	if err != nil {
//		httpguard.Error(w, r, err)
//		return
//	}
//	httpguard.WriteAnswer(w, r, stored)
//
// Only Once applies the unit once. A handler that writes without it, or outside of its
// transaction, writes again at each repeat. If its transaction is rolled back, nothing is
// stored, and a repeat runs the function again.
//
// If a [Middleware] is mounted too, mount it around Idempotency, without a Store and with
// DangerouslySkipInFlight. With a Store or InFlight, it refuses the repeat of a stale
// holder with 412 before Once can return the first result: the 412 then says only that
// this attempt applied nothing. Once compares the token itself, so the write stays
// guarded.
//
// Idempotency is a value; its handlers are safe for concurrent use if Caller is.
type Idempotency struct {
	// Service names the service, in text of any length. Keys of two services are two keys,
	// also if both record their units in one schema. All processes of a service have the
	// same name. Under a new name no stored answer is found, and a repeat is applied
	// again. If Service is empty, Wrap panics: two services would get each other's answers.
	Service string
	// Caller returns the identity of the authenticated caller. Keys of two callers are
	// two keys. An error and an empty identity give 500. A service with a single caller
	// returns a constant. If Caller is nil, Wrap panics: a caller that guesses another
	// caller's key would get that caller's answer.
	Caller func(*http.Request) (string, error)
	// Optional passes an unsafe request without the field to the handler, without a unit.
	// The zero value refuses it with 400.
	Optional bool
	// MaxBody is the maximum length of a request's body, in bytes. The body is read into
	// memory before the handler runs. A longer one gives 413. Zero means 1 MiB.
	MaxBody int64
}

const defaultMaxBody = 1 << 20

// Wrap returns a handler that calls next with the unit of each unsafe request in the
// context: see [UnitFromContext]. Safe requests are passed on without one.
//
// The field has one line and is an Item of RFC 9651 whose value is a String, such as
// "8e03978e". Its parameters are ignored. Many clients omit the quotes, so Wrap also
// accepts visible ASCII without a quote, comma or semicolon. Both spellings are the same
// key. A key may be as long as the server accepts a header ([http.Server.MaxHeaderBytes]):
// its SHA-256 is recorded.
//
// The unit's Key is derived from the Service, the caller, the method, the URL's path and
// the key. Its Fingerprint is derived from the method, the host in lower case, the path as
// it was sent, the query, the body, and the fields whose names begin with Content-, without
// Content-Length. Trailers belong to neither, and next does not get them: a proxy may drop
// them (RFC 9110 §6.5.1). Wrap must be given the whole path: mount it outside of
// [http.StripPrefix]. The handler should derive the resource of Once from the path too.
// Units of two resources are separate, so if a reused key comes with a body that names
// another resource, Once does not return [guard.ErrKeyReused].
//
// Wrap refuses a request before next is called:
//
//	no key, unless Optional                       400  ProblemKeyMissing
//	several lines, or a malformed one             400  ProblemMalformed
//	a body that cannot be read                    400  about:blank
//	a body longer than MaxBody                    413  about:blank
//	next is running for this unit                 409  ProblemInProgress, with Retry-After
//	no identity of the caller                     500  about:blank
//
// If the unit is being applied by another process, next is called, and Once waits for the
// first transaction. A panic of next ends the 409, as a return does.
//
// Wrap panics if Service is empty or Caller is nil.
func (i Idempotency) Wrap(next http.Handler) http.Handler {
	switch {
	case i.Service == "":
		panic("httpguard: Idempotency.Service is empty")
	case i.Caller == nil:
		panic("httpguard: Idempotency.Caller is nil")
	}
	if i.MaxBody <= 0 {
		i.MaxBody = defaultMaxBody
	}
	return &keyed{Idempotency: i, next: next}
}

// keyed is the handler that Idempotency.Wrap returns.
type keyed struct {
	Idempotency
	next    http.Handler
	running sync.Map // the Keys of the units that next runs for
}

// ServeHTTP implements [http.Handler].
func (k *keyed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if httpwrite.IsSafe(r.Method) {
		k.next.ServeHTTP(w, r)
		return
	}
	caller, err := k.Caller(r)
	if err == nil && caller == "" {
		err = errNoIdentity
	}
	if err != nil {
		failed.answer(w, r, err)
		return
	}
	lines := r.Header[keyHeader]
	if len(lines) == 0 && k.Optional {
		k.next.ServeHTTP(w, r)
		return
	}
	key, err := parseKey(lines)
	if err != nil {
		refuseKey(w, r, err)
		return
	}
	body, err := k.read(w, r)
	if err != nil {
		refuseBody(w, r, err)
		return
	}
	k.serve(w, r, k.unitOf(r, caller, key, body), body)
}

// serve calls next unless it is running for the unit.
func (k *keyed) serve(w http.ResponseWriter, r *http.Request, unit guard.Unit, body []byte) {
	if _, runs := k.running.LoadOrStore(unit.Key, nil); runs {
		inProgress.answer(w, r, nil)
		return
	}
	defer k.running.Delete(unit.Key)
	r = r.WithContext(context.WithValue(r.Context(), unitKey{}, attempt{unit, rand.Text()}))
	r.Body, r.Trailer = io.NopCloser(bytes.NewReader(body)), nil
	k.next.ServeHTTP(w, r)
}

var errNoIdentity = errors.New("httpguard: Idempotency.Caller returned an empty identity")

func (k *keyed) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, k.MaxBody))
}

type unitKey struct{}

// attempt is one request of a unit. The id is in the answer that it stores.
type attempt struct {
	unit guard.Unit
	id   string
}

// UnitFromContext returns the unit that [Idempotency] has made of a request. ok is false
// if there is none: for a safe request, for a request without a key if Idempotency is
// Optional, and if the handler is not wrapped.
func UnitFromContext(ctx context.Context) (unit guard.Unit, ok bool) {
	a, ok := ctx.Value(unitKey{}).(attempt)
	return a.unit, ok
}

// unitOf returns the unit of r. The Key has the decoded path and the Fingerprint the path
// as it was sent. Two routes whose paths differ only in their spelling (/a%2Fb and /a/b)
// thus share a Key, and the second request is refused. With the spelling in the Key, a
// repeat that a proxy has normalized would run a second time.
func (k *keyed) unitOf(r *http.Request, caller, key string, body []byte) guard.Unit {
	arguments := []string{r.Method, strings.ToLower(r.Host), r.URL.EscapedPath(), r.URL.RawQuery, string(body)}
	return guard.Unit{
		Key:         "http/" + hex.EncodeToString(digest(k.Service, caller, r.Method, r.URL.Path, key)),
		Fingerprint: string(digest(append(arguments, contentFields(r.Header)...)...)),
	}
}

// contentFields returns the names and values of the fields that describe the content (RFC
// 9110 §8 and §14.4, and later ones). A proxy may add or remove Content-Length (RFC 9112
// §6.1), and may combine the lines of a field (RFC 9110 §5.3).
func contentFields(header http.Header) (parts []string) {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if strings.HasPrefix(name, "Content-") && name != "Content-Length" {
			parts = append(parts, name, strings.Join(header[name], ", "))
		}
	}
	return parts
}

// digest returns the SHA-256 of parts, each preceded by its length: no two lists of parts
// have the same input.
func digest(parts ...string) []byte {
	hash := sha256.New()
	for _, part := range parts {
		_ = binary.Write(hash, binary.BigEndian, uint64(len(part))) // a hash returns no error
		_, _ = io.WriteString(hash, part)
	}
	return hash.Sum(nil)
}

func refuseKey(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errKeyMissing) {
		keyMissing.answer(w, r, err)
		return
	}
	p := malformed
	p.Title, p.Detail = "Malformed key", keyHeader+": "+err.Error()+". Nothing was applied."
	p.answer(w, r, err)
}

// refuseBody responds to an error of reading the body. If a newer token has cancelled the
// request, [Middleware] ends the reading with a refusal.
func refuseBody(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		bodyTooLarge.answer(w, r, err)
	case guard.IsRefusal(err):
		Error(w, r, err)
	default:
		bodyUnread.answer(w, r, err)
	}
}
