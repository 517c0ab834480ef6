package server

// program is a server binary of this machine.
type program struct {
	name   string
	ready  string                                 // its log says this when it accepts connections
	signal string                                 // ends it at once: its data are thrown away
	url    func(port int) string                  // where clients find it
	argv   func(folder string, port int) []string // runs it in the foreground
}
