package child

import "os"

// race keeps a child under the race detector from sleeping for a second when it
// exits. What the user has set comes after it, and counts.
func race() string { return "GORACE=atexit_sleep_ms=0 " + os.Getenv("GORACE") }
