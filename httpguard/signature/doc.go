// Package signature signs tokens, so that a service can reject tokens that its issuer did
// not issue.
//
// # What it is
//
// A token is a resource, a number and a holder; any caller can make one up. One made-up
// token with the greatest number locks every real holder out. If callers are not trusted,
// the issuer, or a service beside it, signs the tokens: a [Signed] is a token with an
// HMAC-SHA-256 (RFC 2104) of its parts, made with a key of a [Keyring]. The service has
// a Keyring with the same keys. It verifies the signature before it compares the number
// with its mark.
//
//	issuer's side                                          service
//	token ──Keyring.Sign──▶ Signed ──Fencing-Token──▶ Keyring.Verify ──▶ guard
//
// The text of a Signed, for headers, queues and columns, is the text of its token with
// three more parameters: k, the id of the key; x, when the signature expires, in Unix
// seconds (optional); and s, the code.
//
//	179516977481431;r="account/42";h="c2f1";k="2026-11";x=253402300799;s=:cx8N…:
//
// The code is the HMAC of six lines, joined by newlines, without a final newline:
// "fencepost-signature-1", the key id, the number in decimal, the resource, the holder,
// and x in decimal or "-". Names have no control characters, so the lines are
// unambiguous. docs/http.md has the format for other languages, with test vectors.
//
// # What it promises
//
// [Keyring.Verify] returns nil only if a holder of one of the keyring's keys has signed
// exactly this resource, number, holder, key id and expiry, and the signature has not
// expired. Otherwise it returns an [*Error], which is [token.ErrBadSignature]. It compares
// codes in constant time. No error, and no String method, contains a secret or a code.
//
// # What it does not do
//
// It does not encrypt anything.
//
// It does not authenticate the sender. A caller that can read a signed token can replay
// it for the same resource until a newer token arrives. Use TLS, and do not log headers.
//
// It does not distinguish the holders of a key. A service that can verify can also sign,
// so a service that must not be able to sign cannot verify.
//
// The expiry of a signature does not end a lease. It uses the verifier's clock, and only
// makes more requests fail. A token with a valid signature may be stale; the comparison
// with the mark decides that.
//
//	keyring, err := signature.New(signature.Key{ID: "2026-11", Secret: secret})
//	signed, err := keyring.Sign(tok, time.Now().Add(time.Hour))
//	err = keyring.Verify(signed)
//
// Where next: package httpguard, whose Transport signs and whose Middleware verifies;
// package token for the tokens.
package signature
