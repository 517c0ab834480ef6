package httpguard

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
)

const problems = "https://pkg.go.dev/github.com/fencepost/fencepost/httpguard#"

// The types of the problems that are answered (RFC 9457 §3.1.1). A client
// compares them as they are. They lead to these lines: whoever looks one up
// finds what to do.
const (
	// ProblemMissing (428): the request has no token of its resource.
	// Acquire the resource's lock and send its token.
	ProblemMissing = problems + "ProblemMissing"
	// ProblemMalformed (400): the Fencing-Token field, or the name of the
	// resource, cannot be read. The detail says which rule is broken.
	ProblemMalformed = problems + "ProblemMalformed"
	// ProblemStale (412): a newer holder has come. Nothing was applied: stop,
	// acquire again, read again. A collision is answered the same way, since to
	// tell it apart would be to tell the mark's number.
	ProblemStale = problems + "ProblemStale"
	// ProblemSeal (403): the service takes sealed tokens only, and this one has
	// no seal, or one that is wrong, has expired, or was made with a key that is
	// not known here. Nothing was applied. Acquire again, where tokens are
	// sealed; a seal that was valid yesterday may have been made with an old key.
	ProblemSeal = problems + "ProblemSeal"
	// ProblemUnavailable (503, with Retry-After): the token could not be
	// judged, older requests on the resource have not ended yet, or a
	// concurrent transaction was in the way. Nothing was applied; the same
	// request may be sent again.
	ProblemUnavailable = problems + "ProblemUnavailable"
	// ProblemUnknown (500): the write was sent to the database and the
	// connection failed. It may or may not have been applied, or is still on
	// its way: acquire and claim again, and read under the new token, before
	// anything is sent again.
	ProblemUnknown = problems + "ProblemUnknown"
	// ProblemMount (500): the service does not know which resource the
	// request is about. Nothing was applied. See [Middleware.Resources].
	ProblemMount = problems + "ProblemMount"
)

const problemType = "application/problem+json" // RFC 9457 §3

// retryAfter is in seconds (RFC 9110 §10.2.3).
const retryAfter = "1"

// problem is the body of an answer. It holds no numbers but the status, which
// RFC 9457 makes one: readers of JSON round them.
type problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	Resource string `json:"resource,omitempty"`
}

// answer writes p. What a 5xx keeps from the client goes to the log.
func (p problem) answer(w http.ResponseWriter, r *http.Request, err error) {
	if p.Status >= http.StatusInternalServerError && !gone(r, err) {
		slog.ErrorContext(r.Context(), "httpguard: "+p.Title, "status", p.Status, "error", err)
	}
	body, _ := json.Marshal(p) // strings and an int: it cannot fail
	header := w.Header()
	// As http.Error does: what a handler said of the answer it meant to
	// give does not hold for this one.
	for _, name := range []string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified"} {
		header.Del(name)
	}
	header.Set("Content-Type", problemType)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	if p.Status == http.StatusServiceUnavailable {
		header.Set("Retry-After", retryAfter)
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}

// gone reports whether err is only the client's leaving.
func gone(r *http.Request, err error) bool {
	return errors.Is(err, context.Canceled) && r.Context().Err() != nil
}
