package scratch

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
)

// Ports are taken from blocks between first and last, below those that systems give to outgoing connections.
const first, last, block = 10_000, 32_000, 50

// ports are those of this process. A block is a process's own: it listens on the first port of the block until it ends, and
// no other process of these tests takes a block whose first port is in use.
var ports blocks

type blocks struct {
	sync.Mutex
	guards []net.Listener
	own    []int // all ports of the own blocks
	next   int   // the number of those that were given
}

// Ports returns n different ports of loopback for servers that listen later. No other process that calls Ports gets them, and
// this one gets a port again after 3,000 others at the earliest. Another program may listen on a port of a block: it is left out.
func Ports(n int) (all []string, err error) {
	ports.Lock()
	defer ports.Unlock()
	for tries := 0; len(all) < n; tries++ {
		if ports.next == len(ports.own) {
			if len(ports.own) < 60*block {
				err = ports.claim()
			} else {
				ports.next = 0
			}
		}
		if err != nil {
			return nil, err
		}
		port := strconv.Itoa(ports.own[ports.next])
		ports.next++
		busy := inUse(port)
		if busy != nil && tries > 2*(last-first) {
			return nil, busy
		}
		if busy == nil {
			all = append(all, port)
		}
	}
	return all, nil
}

// inUse is why nothing can listen on a port, or nil. No other process has the socket meanwhile: one that this process starts
// has all of its sockets until it runs its own program.
func inUse(port string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	return l.Close()
}

// claim adds a block that no process has, begun anywhere.
func (b *blocks) claim() error {
	const all = (last - first) / block
	begin := rand.IntN(all)
	var err error
	for i := range all {
		guard := first + (begin+i)%all*block
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(guard)); err == nil {
			b.guards = append(b.guards, l)
			for port := guard + 1; port < guard+block; port++ {
				b.own = append(b.own, port)
			}
			return nil
		}
	}
	return err
}
