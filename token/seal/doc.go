// Package seal lets a service tell the tokens of its issuer from those that
// somebody made up.
//
// # What it is
//
// A token is three words that anyone can write down. Where requests come from
// callers who need not be believed, one token with the greatest number there is
// locks every honest holder out. So whoever issues tokens, or stands beside the
// issuer, seals them: a [Sealed] is a token with an HMAC-SHA-256 (RFC 2104) of
// its parts, made by a [Ring] of keys. The service has a ring with the same
// keys, verifies, and only then compares the number with its mark.
//
//	issuer's side                                          service
//	token ──Ring.Seal──▶ Sealed ──Fencing-Token──▶ Ring.Verify ──▶ guard
//
// In a header, a queue or a column a Sealed is the text of its token with three
// parameters more: k, the id of the key; x, the end of the seal in Unix
// seconds, which may be left out; and s, the code.
//
//	179516977481431;r="account/42";h="c2f1";k="2026-11";x=253402300799;s=:8izM…:
//
// The code is that of these six lines, joined by newlines, without one at the
// end: "fencepost-seal-1", the key id, the number in decimal, the resource, the
// holder, and x in decimal or "-". Names have no control characters, so nothing
// can be moved from one line to the next. For other languages there is
// docs/http.md, with vectors.
//
// # What it promises
//
// [Ring.Verify] returns nil only for a token that a holder of one of the ring's
// keys has sealed, with that resource, number, holder, key id and end, before
// that end. Everything else is an [*Error], which is [token.ErrSeal]. How long
// it takes does not depend on how much of a code is right. No error and no text
// for people has a secret or a code in it.
//
// # What it does not
//
// It does not hide anything: a seal is not encryption.
//
// It does not know who sends. A seal is a bearer proof: whoever can read the
// header can send it again, the same token for the same resource, and is
// admitted until a newer token comes. Use TLS, and do not log headers.
//
// It does not tell the holders of a key apart. Whoever can verify can also
// seal, so a service that must not be able to forge must not have the key.
//
// The end of a seal is no lease. It runs on the clock of the verifier, and can
// only refuse more: a token whose seal is valid may be stale all the same, and
// it is the mark that says so.
//
//	ring, err := seal.New(seal.Key{ID: "2026-11", Secret: secret})
//	sealed, err := ring.Seal(tok, time.Now().Add(time.Hour))
//	err = ring.Verify(sealed)
//
// Where next: package httpguard, whose Transport seals and whose Middleware
// verifies; package token for what is sealed.
package seal
