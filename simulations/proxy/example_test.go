package proxy_test

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/fencepost/fencepost/simulations/proxy"
)

// A partition holds a message back, and delivers it when it is over.
func ExampleProxy_Blackhole() {
	server, _ := net.Listen("tcp", "127.0.0.1:0")
	defer server.Close()
	p, err := proxy.Start(server.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()

	client, _ := net.Dial("tcp", p.Addr())
	accepted, _ := server.Accept()
	p.Blackhole(proxy.ToServer)
	fmt.Fprint(client, "write")
	for p.Held(proxy.ToServer) == 0 {
		time.Sleep(time.Millisecond)
	}
	client.Close() // its sender is no more
	p.Heal(proxy.ToServer)

	late, _ := io.ReadAll(accepted)
	fmt.Printf("%s arrives\n", late)
	// Output: write arrives
}
