package httpwrite

import (
	"encoding/json"
	"net/http"
)

// ProblemType is the media type of a problem (RFC 9457 §3).
const ProblemType = "application/problem+json"

// retryAfter is the value of Retry-After, in seconds (RFC 9110 §10.2.3).
const retryAfter = "1"

// Problem writes a refusal: body, which must be encodable, as a problem of RFC 9457.
func Problem(w http.ResponseWriter, status int, body any) {
	text, _ := json.Marshal(body)
	header := w.Header()
	// As http.Error does: these fields described the response that the handler intended.
	for _, name := range []string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified"} {
		header.Del(name)
	}
	header.Set("Content-Type", ProblemType)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	switch status {
	case http.StatusServiceUnavailable, http.StatusConflict, http.StatusTooManyRequests:
		header.Set("Retry-After", retryAfter)
	}
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
