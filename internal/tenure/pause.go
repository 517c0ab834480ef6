package tenure

import "time"

const (
	// FirstPause is between the first two questions of one who waits for a resource.
	FirstPause = 2 * time.Millisecond
	// LongestPause is between any.
	LongestPause = 100 * time.Millisecond
)

// Pause is how long to wait before asking again for a resource whose holder has
// remaining left: pause, and not past the end.
func Pause(remaining, pause time.Duration) time.Duration {
	return min(max(remaining, time.Millisecond), pause)
}
