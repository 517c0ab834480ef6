package history

import (
	"errors"
	"io"
	"maps"
	"slices"
	"time"
)

// Merge takes down what another process reported, until the end of reader, in
// this recorder's time. The two clocks are compared by the wall, so both
// processes must run on one machine. What was open at the end is Unknown, and a
// last line that is cut off is left out: its writer was killed, and told of the
// question before. After another error nothing was taken down.
func (r *Recorder) Merge(reader io.Reader) error {
	lines, err := r.read(NewDecoder(reader))
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(lines)) {
		line := lines[id]
		if line.Open {
			line.Outcome, line.Ended = Unknown, max(r.Now(), line.Began)
		}
		r.Add(line.Op)
	}
	return nil
}

// read returns the last line of each id, in this recorder's time.
func (r *Recorder) read(d *Decoder) (map[uint64]Line, error) {
	lines := make(map[uint64]Line)
	var late time.Duration
	started := false
	for {
		line, err := d.Decode()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return lines, nil
		case err != nil:
			return nil, err
		case !line.Started.IsZero():
			late, started = line.Started.Round(0).Sub(r.started.Round(0)), true
		case !started || line.ID == 0:
			return nil, errors.New("history: a report that does not begin with when its clock started, or an op without its id")
		default:
			lines[line.ID] = shifted(line, late)
		}
	}
}

func shifted(line Line, late time.Duration) Line {
	line.Began += late
	line.Ended += late
	if line.Until != 0 {
		line.Until += late
	}
	return line
}
