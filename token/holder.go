package token

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
)

var (
	program  = filepath.Base(os.Args[0])
	sequence atomic.Uint64
)

// newHolder names one acquisition: the locker's name, the process, its how
// manieth acquisition this is, and a random part, since process ids repeat
// after a restart, in containers at once. A holder that two acquisitions
// shared would let a zombie pass for its own successor.
func newHolder(name string) string {
	var random [8]byte
	rand.Read(random[:]) // never fails: it ends the program instead
	return fmt.Sprintf("%s:%d:%d:%s", name, os.Getpid(), sequence.Add(1), hex.EncodeToString(random[:]))
}
