// Package token defines a token, the proof of one acquisition of a resource, and the
// contract of the issuers that grant tokens.
//
// # What it is
//
// A [Token] has three parts: the resource, a number that rises with every acquisition of
// that resource, and the holder, an id of the acquisition. A context carries tokens to
// the place where a write is checked: see [NewContext], [FromContext] and [All].
// [Token.MarshalText] returns the form that is sent to other processes.
//
// An [Issuer] grants tokens. The packages redistoken, pgtoken and memtoken below this
// one are issuers. An Issuer may also be a [QueueIssuer], a [BatchRenewer], a [Recoverer]
// and an [Inspector]. Programs use an Issuer through a Locker of package
// [github.com/fencepost/fencepost/lock].
//
// # What it promises
//
//   - A later acquisition of a resource has a greater number. Each issuer keeps this
//     promise; package [github.com/fencepost/fencepost/token/tokentest] tests it.
//   - A Token is a value and never changes. Code that was paused continues with the
//     number it had before.
//   - If a token is missing or incomplete, or if its lease was released, [FromContext]
//     returns an error. It never returns the zero Token with a nil error.
//
// # What it does not do
//
// A token alone does not make a write safe. The resource must refuse older tokens: see
// package [github.com/fencepost/fencepost/guard].
//
// This package does not verify the origin of a token. A token in a request can be forged:
// see package [github.com/fencepost/fencepost/httpguard/signature].
//
// # Use
//
//	tok, err := token.FromContext(ctx, "account/42")
//	if err != nil {
//		return err // this code does not run under a Hold of account/42
//	}
//	return marks.Admit(ctx, tok)
//
// # Where next
//
// To hold a resource, see package lock. To write an issuer, read [Issuer], then package
// tokentest.
package token

// The files of this package, in reading order:
//
//	token.go    what a token is; which names and numbers are invalid; its text form
//	            (MarshalText)
//	context.go  the token of a resource in a context: missing, released, incomplete; a token
//	            from a request (NewContext); all tokens of a context
//	issuer.go   what an issuer must do: Acquire, Renew, Release, and optionally Wait, RenewAll,
//	            Recover; wrappers of an issuer (Unwrap)
//	errors.go   what each error of issuers, leases and contexts means: held, lost, unreachable,
//	            missing, invalid, exhausted, too far ahead
