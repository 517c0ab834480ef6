package marks

import (
	"fmt"
	"strconv"
	"time"

	"github.com/alecthomas/kong"
)

// number is the number of a token, of a mark or of the floor: a time in units of 10 µs
// since 1970. In JSON it is a string, because some readers of JSON round integers.
type number int64

const unit = 10 * time.Microsecond

func (n number) String() string { return strconv.FormatInt(int64(n), 10) }

// time returns the time that the number stands for. Every issuer of Fencepost draws
// numbers from the clock.
func (n number) time() time.Time { return time.UnixMicro(int64(n) * unit.Microseconds()).UTC() }

func (n number) date() string { return n.time().Format("2006-01-02 15:04:05.00 MST") }

// age returns how long before the server's clock n is.
func (n number) age(clock number) string {
	d := time.Duration(clock-n) * unit
	if d < 0 {
		return "ahead " + formatAge(-d)
	}
	return formatAge(d)
}

// formatAge writes a duration in seconds, as 1h2m3s, or in days.
func formatAge(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < 2*day:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%dd", d/day)
}

// positive is the value of a flag: a whole number above 0. Its own mapper pops the value,
// because kong would parse -1 as a flag.
type positive int64

var _ kong.MapperValue = (*positive)(nil)

// Decode is called by kong.
func (n *positive) Decode(ctx *kong.DecodeContext) error {
	text := ctx.Scan.Pop().String()
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < 1 {
		return fmt.Errorf("%s: must be a whole number above 0", text)
	}
	*n = positive(value)
	return nil
}
