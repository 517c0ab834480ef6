package httptoken

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/fencepost/fencepost/token"
)

// Rights are the bearer tokens (RFC 6750) that a service accepts, and what each may do with
// which locks. The zero value accepts none. It is safe for concurrent use.
type Rights struct{ credentials atomic.Pointer[[]credential] }

type credential struct {
	name             string
	hash             []byte
	rights, prefixes []string
}

// Replace replaces all credentials by those in text, as from a file that was changed. Each line
// has a name, the SHA-256 of the bearer token in hexadecimal, rights joined by commas, and the
// prefixes of the locks' names, each of which ends with a slash, or * for all locks. The rights
// are acquire, which includes renewals and releases, read, and break:
//
//	# printf %s "$TOKEN" | sha256sum
//	billing 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae acquire billing/ shared/
//	oncall  fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9 read,break *
//
// Empty lines, and those that begin with #, are skipped. A bearer token must be random, as from
// "openssl rand -hex 32". If a line is malformed, or has the name or the hash of an earlier one,
// nothing is replaced, and the error has the number of the line and nothing of its text.
func (r *Rights) Replace(text string) error {
	var all []credential
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		c, err := parseCredential(words)
		if err == nil && slices.ContainsFunc(all, func(o credential) bool { return o.name == c.name || bytes.Equal(o.hash, c.hash) }) {
			err = errors.New("an earlier line has the same name or hash")
		}
		if err != nil {
			return fmt.Errorf("httptoken: line %d of the rights: %w", n, err)
		}
		all = append(all, c)
	}
	r.credentials.Store(&all)
	return nil
}

func parseCredential(words []string) (c credential, err error) {
	if len(words) < 4 || len(words[0]) > 64 || token.ValidateResource(words[0]) != nil {
		return c, errors.New("must be a name of at most 64 bytes, a hash, rights, and prefixes")
	}
	c = credential{name: words[0], rights: strings.Split(words[2], ","), prefixes: words[3:]}
	empty := sha256.Sum256(nil) // as of an unset $TOKEN
	if c.hash, err = hex.DecodeString(words[1]); err != nil || len(c.hash) != sha256.Size || bytes.Equal(c.hash, empty[:]) {
		return c, errors.New("the second word must be the SHA-256 in hexadecimal of a token that is not empty")
	}
	for _, right := range c.rights {
		if right != "acquire" && right != "read" && right != "break" {
			return c, errors.New("a right must be acquire, read or break")
		}
	}
	for n, prefix := range c.prefixes {
		if prefix == "*" {
			c.prefixes[n] = ""
		} else if !strings.HasSuffix(prefix, "/") {
			return c, errors.New("a prefix must end with a slash, or be *") // job/1 is not a prefix of job/10
		}
	}
	return c, nil
}

// of returns the credential of a request, if it has the right to what begins with name.
func (r *Rights) of(req *http.Request, right, name string) (found credential, err error) {
	fields := append(req.Header["Authorization"], "")
	scheme, bearer, _ := strings.Cut(fields[0], " ")
	hash := sha256.Sum256([]byte(strings.TrimSpace(bearer)))
	if all := r.credentials.Load(); all != nil && len(fields) == 2 && strings.EqualFold(scheme, "Bearer") {
		for _, c := range *all { // all of them: the time must not depend on the bearer
			if subtle.ConstantTimeCompare(c.hash, hash[:]) == 1 {
				found = c
			}
		}
	}
	switch {
	case found.name == "":
		return found, unauthorized
	case !slices.Contains(found.rights, right) || !slices.ContainsFunc(found.prefixes, func(p string) bool { return strings.HasPrefix(name, p) }):
		return found, forbidden.with("The credential has no right to " + right + " this lock.")
	}
	return found, nil
}
