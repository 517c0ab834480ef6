package netfault_test

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/fencepost/fencepost/internal/netfault"
)

// A partition holds a message back, and delivers it when the partition is over.
func ExampleProxy_Blackhole() {
	server, _ := net.Listen("tcp", "127.0.0.1:0")
	defer server.Close()
	p, err := netfault.Start(server.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()

	client, _ := net.Dial("tcp", p.Addr())
	accepted, _ := server.Accept()
	p.Blackhole(netfault.ToServer)
	fmt.Fprint(client, "write")
	for p.Held(netfault.ToServer) == 0 {
		time.Sleep(time.Millisecond)
	}
	client.Close() // the sender has left
	p.Heal(netfault.ToServer)

	late, _ := io.ReadAll(accepted)
	fmt.Printf("%s arrives\n", late)
	// Output: write arrives
}
