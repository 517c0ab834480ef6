package redisquorum

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// format is the version of what stands in a member's keys.
const format = "fencepost-quorum/1"

const (
	volatile = "volatile"
	durable  = "durable"
)

// charter is what the members of a quorum agree on. Each has it in its marker,
// together with its own name and the run of the server that wrote it:
//
//	fencepost-quorum/1 <id> <longest ttl, ms> volatile <name>,<name>,<name> <name> <run>
//
// Two that differ in anything are two quorums: their majorities need not meet.
type charter struct {
	id     string
	maxTTL time.Duration
	memory string   // volatile, or durable: then the run is "-"
	names  []string // sorted

	markers []string // of the names, once it is what a quorum goes by
}

// settled is c with all that is asked of it again and again.
func (c *charter) settled() *charter {
	for _, name := range c.names {
		c.markers = append(c.markers, c.marker(name))
	}
	return c
}

// marker is that of the member called name, without the run.
func (c *charter) marker(name string) string {
	names := strings.Join(c.names, ",")
	return fmt.Sprintf("%s %s %d %s %s %s ", format, c.id, c.maxTTL.Milliseconds(), c.memory, names, name)
}

// run is the scripts' second argument.
func (c *charter) run() string {
	if c.memory == durable {
		return "-"
	}
	return ""
}

// parseMarker reads a marker, and whose it is.
func parseMarker(marker string) (c charter, name string, err error) {
	fields := strings.Fields(marker)
	if len(fields) != 7 || fields[0] != format {
		return c, "", fmt.Errorf("its marker is %q, which is none of %s", marker, format)
	}
	ms, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return c, "", fmt.Errorf("its marker is %q: %w", marker, err)
	}
	c = charter{
		id: fields[1], maxTTL: time.Duration(ms) * time.Millisecond,
		memory: fields[3], names: strings.Split(fields[4], ","),
	}
	return c, fields[5], nil
}

// differs says why a node that this program calls name is no member of a quorum
// of the names and the longest ttl, or nothing.
func (c *charter) differs(member, name string, names []string, maxTTL time.Duration) error {
	switch {
	case !slices.Equal(c.names, names):
		return fmt.Errorf("it is in a quorum of %s, not of %s", strings.Join(c.names, ","), strings.Join(names, ","))
	case member != name:
		return fmt.Errorf("it is the quorum's %q, and called %q here", member, name)
	case c.maxTTL != maxTTL:
		return fmt.Errorf("its quorum has a MaxTTL of %s, not of %s", c.maxTTL, maxTTL)
	}
	return nil
}
