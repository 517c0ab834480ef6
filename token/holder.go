package token

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
)

var (
	program  = filepath.Base(os.Args[0])
	sequence atomic.Uint64
)

// newHolder names one acquisition: the locker's name, the process, its how
// manieth acquisition this is, and a random part, since process ids repeat
// after a restart, in containers at once, and everything repeats in the clone
// of a virtual machine. A holder that two acquisitions shared would let a
// zombie pass for its own successor.
func newHolder(name string) string {
	var random [8]byte
	rand.Read(random[:]) // never fails: it ends the program instead
	text := make([]byte, 0, 96)
	text = append(append(text, name...), ':')
	text = append(strconv.AppendInt(text, int64(os.Getpid()), 10), ':')
	text = append(strconv.AppendUint(text, sequence.Add(1), 10), ':')
	return string(hex.AppendEncode(text, random[:]))
}
