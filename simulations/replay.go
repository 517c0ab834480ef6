package simulations

import (
	"flag"
	"regexp"
	"strconv"
)

var seedName = regexp.MustCompile(`seed_(\d+)`)

// wanted returns the seed that `go test -run` asks for by name.
func wanted() (seed uint64, ok bool) {
	run := flag.Lookup("test.run")
	if run == nil {
		return 0, false
	}
	found := seedName.FindStringSubmatch(run.Value.String())
	if found == nil {
		return 0, false
	}
	seed, err := strconv.ParseUint(found[1], 10, 64)
	return seed, err == nil
}
