package httpguard

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// Answer is a response to a request that is applied once. The function of Once returns
// its encoding as the unit's result, so that it is stored by the transaction that has the
// effect: see [Idempotency]. [WriteAnswer] sends it, the first time and at each repeat.
//
// The encoding may have [guard.MaxResult] bytes. Store the identifier of a longer answer,
// such as its Location.
type Answer struct {
	// Status is the status, 200 to 599. Zero means 200.
	Status int
	// Header has fields that describe this answer: Cache-Control, Content-Disposition,
	// Content-Encoding, Content-Language, Content-Location, Content-Type, ETag,
	// Last-Modified, Link, Location and Vary. Set other fields, such as Set-Cookie or a
	// request's id, on the ResponseWriter: a repeat must not get those of the first
	// request. Nil stores none.
	Header http.Header
	// Body is the content. A status of 204 or 304 has none.
	Body []byte
}

// storedFields are the fields of an Answer, in canonical spelling: those that describe the
// answer, and not the connection, the attempt or the client.
var storedFields = []string{
	"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Location", "Content-Type",
	"Etag", "Last-Modified", "Link", "Location", "Vary",
}

// replayedHeader is the field of an answer that an earlier request has stored. The draft
// of Idempotency-Key names no such field. Stripe's Idempotent-Replayed is the best known:
// https://docs.stripe.com/api/idempotent_requests
const replayedHeader = "Idempotency-Replayed"

// answerVersion is the first byte of the encoding. The rest is the status in decimal with
// the attempt's id behind a space, the header and an empty line, each ended by CRLF, and
// the body.
const answerVersion = 1

// Encode returns the answer in the form that is stored. ctx is the context of the request,
// or is derived from it: [WriteAnswer] then finds out whether this request or an earlier
// one has stored the answer.
//
// Encode returns an error if the Status is not final, if the Header has other fields than
// those listed above or a control character, and if a status without content has a Body.
// The error ends the transaction of Once, and nothing is applied.
func (a Answer) Encode(ctx context.Context) ([]byte, error) {
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	if err := a.validate(); err != nil {
		return nil, err
	}
	for name := range a.Header {
		if !slices.Contains(storedFields, http.CanonicalHeaderKey(name)) {
			return nil, fmt.Errorf("httpguard: Answer: the field %q is not stored: set it on the ResponseWriter", name)
		}
	}
	var text bytes.Buffer
	text.WriteByte(answerVersion)
	by, _ := ctx.Value(unitKey{}).(attempt)
	fmt.Fprintf(&text, "%d %s\r\n", a.Status, by.id)
	if err := a.Header.Write(&text); err != nil {
		return nil, err
	}
	text.WriteString("\r\n")
	text.Write(a.Body)
	// What cannot be read back, such as a field with a control character, must not be
	// stored: each repeat would get a 500.
	if _, _, err := decodeAnswer(text.Bytes()); err != nil {
		return nil, fmt.Errorf("httpguard: Answer: it cannot be read back: %w", err)
	}
	return text.Bytes(), nil
}

func (a Answer) validate() error {
	switch {
	case a.Status < 200 || a.Status > 599:
		return fmt.Errorf("httpguard: Answer: the status %d is not final", a.Status)
	case (a.Status == http.StatusNoContent || a.Status == http.StatusNotModified) && len(a.Body) > 0:
		return fmt.Errorf("httpguard: Answer: the status %d has no body", a.Status)
	}
	return nil
}

// decodeAnswer returns the answer that Encode has encoded, and the id of the attempt.
func decodeAnswer(stored []byte) (a Answer, by string, err error) {
	if len(stored) == 0 || stored[0] != answerVersion {
		return a, "", errors.New("httpguard: the unit's result is no Answer of this version")
	}
	text := bufio.NewReader(bytes.NewReader(stored[1:]))
	lines := textproto.NewReader(text)
	first, err := lines.ReadLine()
	if err != nil {
		return a, "", fmt.Errorf("httpguard: the stored answer has no status: %w", err)
	}
	header, err := lines.ReadMIMEHeader()
	if err != nil {
		return a, "", fmt.Errorf("httpguard: the stored answer has no header: %w", err)
	}
	status, by, _ := strings.Cut(first, " ")
	a.Header = http.Header(header)
	if a.Status, err = strconv.Atoi(status); err != nil {
		return a, "", fmt.Errorf("httpguard: the stored answer's status: %w", err)
	}
	if a.Body, err = io.ReadAll(text); err != nil {
		return a, "", err
	}
	return a, by, a.validate()
}

// WriteAnswer responds to r with a result of Once that [Answer.Encode] has made. Fields
// that are already set on w, and that the answer lacks, are sent too. If the request has a
// unit of [Idempotency], and another request has stored the answer, the response has the
// field Idempotency-Replayed: true.
//
// If stored is no such result, for example because another version of the service has
// stored it, WriteAnswer logs the error to [log/slog.Default] and responds 500 with the
// type about:blank, which says nothing about what was applied.
func WriteAnswer(w http.ResponseWriter, r *http.Request, stored []byte) {
	a, by, err := decodeAnswer(stored)
	if err != nil {
		failed.answer(w, r, err)
		return
	}
	header := w.Header()
	for name, values := range a.Header {
		header[name] = values
	}
	if this, ok := r.Context().Value(unitKey{}).(attempt); ok && by != "" && by != this.id {
		header.Set(replayedHeader, "true")
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body)
}
