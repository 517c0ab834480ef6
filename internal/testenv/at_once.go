package testenv

import (
	"flag"
	"strconv"
)

// AtOnce lets up to n parallel tests of this process run at the same time, unless
// go test was told a number by -parallel. It is for TestMain, in packages whose
// tests wait most of the time: as many as there are cores leave those idle.
func AtOnce(n int) {
	flag.Parse()
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "test.parallel" })
	if !told {
		_ = flag.Set("test.parallel", strconv.Itoa(n)) // it is a number
	}
}
