package renew

import (
	"fmt"
	"reflect"
	"runtime"

	"github.com/fencepost/fencepost/token"
)

// used is what the heap and the stacks take, without garbage: what finalizers and
// pools hold on to is gone with the second collection.
func used() float64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc + stats.StackInuse)
}

// fieldsOf is how large the fields are of what is behind a lease.
func fieldsOf(l *token.Lease, names ...string) (bytes int, err error) {
	behind := reflect.TypeOf(*l).Field(0).Type.Elem()
	for _, name := range names {
		field, ok := behind.FieldByName(name)
		if !ok {
			return 0, fmt.Errorf("%s has no field %s: which are for its renewal has changed", behind, name)
		}
		bytes += int(field.Type.Size())
	}
	return bytes, nil
}
