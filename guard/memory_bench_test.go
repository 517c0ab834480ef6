package guard_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

const (
	million   = 1_000_000
	tokenSize = 40  // two strings and a number
	mostBytes = 100 // the most bytes that a resource may cost, without its names
)

func BenchmarkMemoryAdmit(b *testing.B) {
	b.Run("the mark's own holder", func(b *testing.B) {
		var memory guard.Memory
		admitAll(b, &memory, func(int) token.Token { return tok(33, "a") })
	})
	b.Run("a greater number each time", func(b *testing.B) {
		var memory guard.Memory
		admitAll(b, &memory, func(i int) token.Token { return tok(int64(i)+1, "a") })
	})
	b.Run("refused", func(b *testing.B) {
		var memory guard.Memory
		if err := memory.Admit(b.Context(), tok(33, "a")); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if memory.Admit(b.Context(), tok(32, "b")) == nil {
				b.Fatal("admitted")
			}
		}
	})
}

func admitAll(b *testing.B, memory *guard.Memory, next func(i int) token.Token) {
	b.ReportAllocs()
	ctx := b.Context()
	for i := 0; b.Loop(); i++ {
		if err := memory.Admit(ctx, next(i)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMemoryAdmitInParallel(b *testing.B) {
	var memory guard.Memory
	toks := make([]token.Token, 1024)
	for i := range toks {
		toks[i] = token.Token{Resource: fmt.Sprint("account/", i), Number: 33, Holder: "a"}
	}
	var writers atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := writers.Add(97); pb.Next(); i++ {
			if err := memory.Admit(b.Context(), toks[i%int64(len(toks))]); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkMemorySize reports the cost of a million resources with names of usual length:
// without the names, and with them.
func BenchmarkMemorySize(b *testing.B) {
	for b.Loop() {
		names := heap()
		toks := make([]token.Token, million)
		for i := range toks {
			toks[i] = token.Token{
				Resource: fmt.Sprint("account/", i), Number: 179516977481431,
				Holder: fmt.Sprintf("billing:4711:%d:c2f1a3b4d5e6f708", i),
			}
		}
		names = heap() - names - million*tokenSize

		memory, marks := new(guard.Memory), heap()
		for _, tok := range toks {
			if err := memory.Admit(b.Context(), tok); err != nil {
				b.Fatal(err)
			}
		}
		marks = heap() - marks
		b.ReportMetric((marks-names)/million, "B/resource")
		b.ReportMetric(marks/million, "B/resource-with-names")
		if marks-names > million*mostBytes {
			b.Errorf("%.1f bytes a resource", (marks-names)/million)
		}
		runtime.KeepAlive(toks)
		runtime.KeepAlive(memory)
	}
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}
