// Package window decides who may be at work on a resource inside one process:
// requests under one token at the same time, and none under two. It has no
// mutex, no channel and no goroutine: whoever asks does so alone.
//
// httpguard asks it under a mutex; package kernel asks it from a simulated
// service.
package window
