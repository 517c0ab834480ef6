package main

import (
	"fmt"
	"strconv"
	"time"
)

// number is a token's, a mark's or the floor's: a time in units of 10 µs. It
// goes into JSON as a string, since readers of JSON round integers.
type number int64

const unit = 10 * time.Microsecond

func (n number) String() string { return strconv.FormatInt(int64(n), 10) }

// time is what the number stands for, if its issuer goes by the clock, as every
// issuer of Fencepost does.
func (n number) time() time.Time { return time.UnixMicro(int64(n) * unit.Microseconds()).UTC() }

func (n number) date() string { return n.time().Format("2006-01-02 15:04:05.00 MST") }

// age says how long before the server's clock n is.
func (n number) age(clock number) string {
	d := time.Duration(clock-n) * unit
	if d < 0 {
		return "ahead " + span(-d)
	}
	return span(d)
}

// span is a duration in the unit that people would take.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < 2*day:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%dd", d/day)
}
