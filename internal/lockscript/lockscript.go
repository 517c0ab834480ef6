// Package lockscript lists the Lua scripts that write a lock's own keys and nothing of a
// program's, so that package redispoint does not count them as the program's writes.
package lockscript

import (
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	"encoding/hex"
)

var listed = map[string]bool{} // by text and by hash

// Add lists a script and returns its hash, as EVALSHA has it. It must be called while
// variables are initialized: the list has no mutex.
func Add(text string) (hash string) {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	hash = hex.EncodeToString(sum[:])
	listed[text], listed[hash] = true, true
	return hash
}

// Runs reports whether a command with these arguments runs a listed script.
func Runs(args []any) bool {
	if len(args) < 2 {
		return false
	}
	script, _ := args[1].(string)
	return listed[script]
}
