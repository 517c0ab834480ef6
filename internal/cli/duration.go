package cli

import (
	"fmt"
	"math"
	"regexp"
	"time"
)

var daysAndWeeks = regexp.MustCompile(`[\d.]+[dw]`)

// ParseDuration is [time.ParseDuration] with two more units: d is 24 hours, and w is
// 7 days, as in 30d, 2w and 1d12h. It returns an error for a negative duration, and for
// one that is longer than a [time.Duration] can be, about 292 years.
//
// The command fencepost parses every flag of type time.Duration with it: a field of a
// command needs no type of its own.
func ParseDuration(text string) (time.Duration, error) {
	inHours := daysAndWeeks.ReplaceAllStringFunc(text, func(part string) string {
		hours := time.Duration(24)
		if part[len(part)-1] == 'w' {
			hours = 7 * 24
		}
		d, err := time.ParseDuration(part[:len(part)-1] + "h")
		if err != nil || d > math.MaxInt64/hours {
			return part // no number, or too long: its unit is refused below
		}
		return (d * hours).String()
	})
	d, err := time.ParseDuration(inHours)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration, as 90s, 1h30m, 30d or 2w, of at most 292 years", text)
	case d < 0:
		return 0, fmt.Errorf("%q: a duration cannot be negative", text)
	}
	return d, nil
}
