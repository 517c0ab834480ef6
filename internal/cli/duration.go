package cli

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

var durationPart = regexp.MustCompile(`^(\d+(?:\.\d*)?|\.\d+)([^\d.]*)`)

// ParseDuration is [time.ParseDuration] with two more units: d is 24 hours, and w is
// 7 days, as in 30d, 2w and 1d12h. It returns an error for a negative duration, and for
// one that is longer than a [time.Duration] can be, about 292 years.
//
// The command fencepost parses every flag of type time.Duration with it: a field of a
// command needs no type of its own.
func ParseDuration(text string) (time.Duration, error) {
	rest := strings.TrimPrefix(text, "+")
	if rest == "0" {
		return 0, nil
	}
	if strings.HasPrefix(rest, "-") {
		return 0, fmt.Errorf("%q: a duration cannot be negative", text)
	}
	var sum time.Duration
	for first := true; first || rest != ""; first = false {
		part := durationPart.FindStringSubmatch(rest)
		if part == nil {
			return 0, fmt.Errorf("%q is not a duration, as 90s, 1h30m, 30d or 2w", text)
		}
		d, err := durationOf(part[1], part[2])
		if err == nil && d > math.MaxInt64-sum {
			err = errTooLong
		}
		if err != nil {
			return 0, fmt.Errorf("%q: %w", text, err)
		}
		sum += d
		rest = rest[len(part[0]):]
	}
	return sum, nil
}

var errTooLong = errors.New("longer than 292 years")

func durationOf(number, unit string) (time.Duration, error) {
	scale := time.Duration(1)
	switch unit {
	case "d":
		scale, unit = 24, "h"
	case "w":
		scale, unit = 7*24, "h"
	case "":
		return 0, fmt.Errorf("the number %s has no unit, as %ss", number, number)
	case "ns", "us", "µs", "μs", "ms", "s", "m", "h":
	default:
		return 0, fmt.Errorf("%q is not a unit: use w, d, h, m, s, ms, us or ns", unit)
	}
	d, err := time.ParseDuration(number + unit)
	if err != nil || d > math.MaxInt64/scale {
		return 0, errTooLong // the number and the unit are well-formed
	}
	return d * scale, nil
}
