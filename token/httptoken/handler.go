package httptoken

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/token"
)

const (
	// MaxWait is the longest wait of one request. Common proxies end a request after 60 s.
	MaxWait = 50 * time.Second
	// MaxTTL is the longest lease.
	MaxTTL = 24 * time.Hour
	// MaxLabelBytes is the greatest length of a holder's label. The issuer's holder is longer
	// by the hash of the request.
	MaxLabelBytes = 170

	maxBody = 4 << 10
	slowest = 10 * time.Second // for a client to send its body
)

// Handler serves the locks of Issuer, in any number of replicas over one issuer. It must not
// be copied, and its fields must not change after the first request.
type Handler struct {
	// Issuer has the locks. It is required. Without a [token.QueueIssuer] the waiters poll,
	// and in no order. Locks are read and broken only if it is a [token.Inspector], and broken
	// only if it is a [token.Recoverer] too.
	Issuer token.Issuer
	// Keyring signs the tokens of the replies, without an expiry, and a token that renews or
	// releases needs a valid signature. Nil means that tokens are not signed: a client that
	// has read the id of another holder can renew and release its lock.
	Keyring *signature.Keyring
	// Rights are those of the clients. Nil means that every client may do everything.
	Rights *Rights
	// Guards are the marks of everything that holders write, each by a name for replies. A
	// break raises all of them. Nil means that a break is refused, unless it is unfenced.
	Guards map[string]guard.Store
	// MaxWaiters is how many requests of one credential may wait at once; without Rights, how
	// many of all clients. Zero means 10,000.
	MaxWaiters int

	turns   sync.Map // of *turn, by place
	mu      sync.Mutex
	waiters map[string]int // by the name of the credential
}

//go:embed openapi.json
var openAPI json.RawMessage

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reply, err := h.serve(w, r)
	// The server reads what the client still has to send of a body before it sends the reply.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(slowest))
	if err != nil {
		refuse(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if reply == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(reply)
}

// call is one request.
type call struct {
	*http.Request
	*Handler
	client credential
	name   string // of the lock; in a list, the prefix of names
	// The fields of the body. One that is not sent is zero. ttl and wait are in ms.
	holder, request, token, reason string
	ttl, wait, number              int64
	unfenced                       bool
}

// routes are the requests for a lock, and for a list, by their method and action.
var routes = map[string]struct {
	do            func(*call) (any, error)
	right, fields string // fields of the body
}{
	"GET list":   {(*call).list, "read", ""},
	"GET":        {(*call).inspect, "read", ""},
	"PUT":        {(*call).acquire, "acquire", "holder request ttl_ms wait_ms"},
	"DELETE":     {(*call).release, "acquire", "token holder request"},
	"POST/renew": {(*call).renew, "acquire", "token holder request ttl_ms"},
	"POST/break": {(*call).depose, "break", "holder number reason unfenced"},
}

// serve returns the body of the reply, which is nil for 204.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) (reply any, err error) {
	c := &call{Request: r, Handler: h}
	path := cmp.Or(r.URL.RawPath, r.URL.EscapedPath()) // as it was sent: EscapedPath alone would decode %2F beside a quotation mark
	name, isLock := strings.CutPrefix(path, "/v1/locks/")
	key := r.Method
	switch cut := strings.LastIndexByte(name, '/'); {
	case path == "/openapi.json" && key == http.MethodGet:
		return openAPI, nil
	case path == "/v1/locks":
		key += " list"
	case !isLock:
		return nil, notFound
	case key == http.MethodPost && cut >= 0:
		key, name = key+name[cut:], name[:cut]
	}
	route, found := routes[key]
	switch {
	case !found && (!isLock || r.Method == http.MethodPost):
		return nil, notFound
	case !found:
		w.Header().Set("Allow", "GET, PUT, POST, DELETE")
		return nil, notAllowed
	case r.Header.Get("Origin") != "":
		return nil, forbidden.with("Pages in a browser are not served.")
	case isLock:
		c.name, err = unescape(name)
	default:
		if c.name = r.URL.Query().Get("prefix"); c.name != "" {
			err = token.ValidateResource(c.name)
		}
	}
	if err == nil && h.Rights != nil {
		c.client, err = h.Rights.of(r, route.right, c.name)
	}
	if err == nil && route.fields != "" {
		err = c.read(w, route.fields)
	}
	if err != nil {
		return nil, err
	}
	return route.do(c)
}

// unescape returns the name of a lock in a path. A proxy may rewrite a segment that is empty,
// "." or "..", so these have to be encoded, as "%2F" and "%2E".
func unescape(path string) (name string, err error) {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return "", invalid.with(`The name has an empty segment, "." or "..": encode "/" as %2F and "." as %2E.`)
		}
	}
	if name, err = url.PathUnescape(path); err != nil {
		return "", invalid.with("The path is not encoded.")
	}
	return name, token.ValidateResource(name)
}

// read parses the body, an object of fields. What another reader of the same body, such as a
// proxy that decides about it, may take for another value is an error: a field that is unknown,
// in another case, or repeated, null, and half a surrogate pair.
func (c *call) read(w http.ResponseWriter, allowed string) error {
	fields := map[string]any{
		"holder": &c.holder, "request": &c.request, "token": &c.token, "ttl_ms": &c.ttl, "wait_ms": &c.wait,
		"number": &c.number, "reason": &c.reason, "unfenced": &c.unfenced,
	}
	maps.DeleteFunc(fields, func(name string, _ any) bool { return !slices.Contains(strings.Fields(allowed), name) })
	_, leases := fields["ttl_ms"]
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(slowest)) // an error means that the server's own deadline counts
	body, err := io.ReadAll(http.MaxBytesReader(w, c.Body, maxBody))
	if err == nil {
		_ = control.SetReadDeadline(time.Time{}) // the server reads on, to see a disconnect
	}
	switch kind, _, _ := mime.ParseMediaType(c.Header.Get("Content-Type")); {
	case errors.As(err, new(*http.MaxBytesError)):
		return tooLarge
	case err != nil || !utf8.Valid(body):
		return invalid.with("The body could not be read, or is not UTF-8.")
	case len(body) == 0 && c.Method == http.MethodDelete: // the token is in the header
		return nil
	case kind != "application/json": // which a page in a browser cannot send unasked
		return wrongType
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	for start, _ := dec.Token(); start == json.Delim('{') && dec.More(); {
		key, _ := dec.Token()
		name, _ := key.(string)
		field := fields[name]
		failed := field == nil || dec.Decode(&field) != nil
		text, _ := field.(*string)
		if failed || field == nil || text != nil && strings.ContainsRune(*text, utf8.RuneError) { // from null, and from half a pair
			return invalid.with(fmt.Sprintf("The field %.40q is unknown or repeated, or its value has another type, or is not Unicode.", name))
		}
		delete(fields, name)
	}
	closing, _ := dec.Token()
	if _, end := dec.Token(); closing != json.Delim('}') || !errors.Is(end, io.EOF) {
		return invalid.with("The body is not one JSON object.")
	}
	if leases && (c.ttl < 1 || c.ttl > MaxTTL.Milliseconds() || c.wait < 0 || c.wait > MaxWait.Milliseconds()) {
		return invalid.with(fmt.Sprintf("ttl_ms must be 1 to %d, and wait_ms 0 to %d.", MaxTTL.Milliseconds(), MaxWait.Milliseconds()))
	}
	return nil
}

// turn is a request to acquire, while it is served. There is one at a time for each place: the
// issuer's Wait, when it ends, frees what its holder has been granted.
//
//  1. A request waits, and its client disconnects.
//  2. The client repeats the request, and is granted the lock.
//  3. The first Wait ends, and frees the lock.
//
// Another replica may serve the repeat, so a client must not repeat a request that waited and
// got no reply: see the package's documentation.
type turn struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func (t *turn) end() {
	t.cancel()
	<-t.done
}

// place names the turn of a holder: without the name, a client could end a wait for a lock to
// which it has no right.
func (c *call) place(holder string) string { return c.name + "\n" + holder }

// enter begins a turn, after the end of the one before. The context ends with the turn.
func (h *Handler) enter(ctx context.Context, place string) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	t := &turn{cancel, make(chan struct{})}
	for before, occupied := h.turns.LoadOrStore(place, t); occupied; before, occupied = h.turns.LoadOrStore(place, t) {
		before.(*turn).end()
	}
	return ctx, func() {
		cancel()
		h.turns.Delete(place)
		close(t.done)
	}
}

// count adds n to the waiters of the client, and returns false if they would be too many.
func (c *call) count(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiters == nil {
		c.waiters = map[string]int{}
	}
	all := c.waiters[c.client.name] + n
	if n > 0 && all > cmp.Or(c.MaxWaiters, 10_000) {
		return false
	}
	c.waiters[c.client.name] = all
	return true
}
