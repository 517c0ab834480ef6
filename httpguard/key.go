package httpguard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"

	"github.com/fencepost/fencepost/internal/httpwrite"
	"github.com/fencepost/fencepost/token"
)

// keyHeader is the field of draft-ietf-httpapi-idempotency-key-header-07.
const keyHeader = "Idempotency-Key"

var errKeyMissing = errors.New("httpguard: no " + keyHeader)

// parseKey returns the key in the lines of the field, or the rule that they break.
func parseKey(lines []string) (string, error) {
	switch {
	case len(lines) == 0:
		return "", errKeyMissing
	case len(lines) > 1:
		return "", errors.New("must have one line")
	case isBareKey(lines[0]):
		return lines[0], nil
	}
	item, err := httpsfv.UnmarshalItem(lines)
	if err != nil {
		return "", errors.New("must be an Item of RFC 9651")
	}
	key, ok := item.Value.(string)
	if !ok || key == "" {
		return "", errors.New("must be a String of at least one character")
	}
	return key, nil
}

// isBareKey reports whether line is a key without quotes. It contains no quote, so it is
// no String of RFC 9651, and neither a comma nor a semicolon, so it is no part of a list
// and has no parameters.
func isBareKey(line string) bool {
	for i := range len(line) {
		if c := line[i]; c <= ' ' || c > '~' || strings.IndexByte(`",;`, c) >= 0 {
			return false
		}
	}
	return line != ""
}

type sentKey struct{}

// WithIdempotencyKey returns a context whose unsafe requests [Transport] sends with this
// Idempotency-Key, to Hosts only. Make one key for each piece of work, for example with
// Text of crypto/rand, and store it with the work if the work outlives the process. After
// any error, repeat the same request under the same key: a service with [Idempotency]
// applies it once. If key is empty or has other characters than printable ASCII, RoundTrip
// returns a [*token.InvalidError], and sends nothing.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, sentKey{}, key)
}

// keyToAdd returns the value of the field to add for the key of req's context. It is "" if
// there is no key, or the caller has set the field.
func keyToAdd(req *http.Request) (string, error) {
	key, has := req.Context().Value(sentKey{}).(string)
	if !has || httpwrite.IsSafe(req.Method) {
		return "", nil
	}
	text, err := formatKey(key)
	if lines := fieldLines(req.Header, keyHeader); lines != nil && err == nil {
		if set, err := parseKey(lines); err != nil || set != key {
			return "", fmt.Errorf("%w: %s of %s %s", ErrTwoSources, keyHeader, req.Method, req.URL.Redacted())
		}
		return "", nil
	}
	return text, err
}

func formatKey(key string) (string, error) {
	text, err := httpsfv.Marshal(httpsfv.NewItem(key))
	if key == "" || err != nil {
		return "", &token.InvalidError{Part: "idempotency key", Value: key, Rule: "must be printable ASCII, and not empty"}
	}
	return text, nil
}
