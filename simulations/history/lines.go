package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Line is one line of JSON in a report: the beginning of the clock, which comes
// first, or an op. An op that is reported again under the same ID replaces what
// was said of it before.
type Line struct {
	Started time.Time `json:"started,omitzero"` // the instant from which times count
	ID      uint64    `json:"id,omitempty"`
	Open    bool      `json:"open,omitempty"` // not answered yet
	Op
}

// Encoder writes lines, each in one call of Write.
type Encoder struct{ w io.Writer }

// NewEncoder returns an Encoder to w.
func NewEncoder(w io.Writer) *Encoder { return &Encoder{w} }

// Encode writes one line.
func (e *Encoder) Encode(line Line) error {
	text, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("history: encode: %w", err)
	}
	_, err = e.w.Write(append(text, '\n'))
	return err
}

// Decoder reads lines.
type Decoder struct {
	r    *bufio.Reader
	line int
}

// NewDecoder returns a Decoder from r. It reads ahead.
func NewDecoder(r io.Reader) *Decoder { return &Decoder{r: bufio.NewReader(r)} }

// Decode returns the next line, or [io.EOF] after the last. A last line without
// its end, such as a killed process leaves, is [io.ErrUnexpectedEOF]. An op that
// is malformed, or a field that nobody knows, is an error.
func (d *Decoder) Decode() (Line, error) {
	text, err := d.r.ReadBytes('\n')
	if errors.Is(err, io.EOF) && len(text) > 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return Line{}, err
	}
	d.line++
	line, err := parse(text)
	if err != nil {
		return Line{}, fmt.Errorf("history: line %d: %w", d.line, err)
	}
	return line, nil
}

func parse(text []byte) (Line, error) {
	var line Line
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&line); err != nil {
		return line, err
	}
	if strict.More() {
		return line, errors.New("more than one op")
	}
	if !line.Started.IsZero() {
		return line, nil
	}
	return line, line.Check()
}
