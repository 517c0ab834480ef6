// Package http has the figures of package httpguard: what the middleware costs
// beside the same handler without it.
//
//	in memory      the handler is called, and nobody reads its answer
//	end to end     over the loopback device and connections that are kept, HTTP/1.1
//	beside a store the middleware asks it, or the program does so itself
//
// Marks are kept in [guard.Memory] unless a figure says otherwise, each worker has
// a resource of its own, and its token is claimed already. The window is included
// everywhere.
//
// Absolute times do not carry from one machine to the next. The one target that is
// absolute, 600 ns more than the handler alone, is only as good as the machine;
// allocations are counted, and are the same everywhere.
package http
