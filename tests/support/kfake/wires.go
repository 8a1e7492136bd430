package main

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
)

const (
	produceKey = 0
	// Size, api key, version, correlation id: what is looked at of a request.
	requestHead = 12
	// Size, correlation id, tags of the header: what precedes an answer's body.
	responseHead = 9
)

// A change to the next answers to one kind of request.
type change struct {
	throttleMs int32
	cut        bool
	left       int
}

// All connections of the cluster, whose answers are changed on their way out.
type wires struct {
	mu      sync.Mutex
	changes map[int16]*change
}

func (w *wires) order(key int16, wanted change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes[key] = &wanted
}

func (w *wires) next(key int16) (change, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.changes[key]
	if found == nil || found.left == 0 {
		return change{}, false
	}
	found.left--
	return *found, true
}

func (w *wires) listen(network, address string) (net.Listener, error) {
	inner, err := net.Listen(network, address)
	return &listener{inner, w}, err
}

type listener struct {
	net.Listener
	wires *wires
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &wire{Conn: conn, wires: l.wires, asked: map[int32]int16{}}, nil
}

// A connection that knows which answer belongs to which kind of request. It is read and written by
// one goroutine each; an answer is one Write.
type wire struct {
	net.Conn
	wires *wires
	mu    sync.Mutex
	asked map[int32]int16
	head  []byte
	skip  int
}

func (w *wire) Read(into []byte) (int, error) {
	n, err := w.Conn.Read(into)
	w.mu.Lock()
	defer w.mu.Unlock()
	for data := into[:n]; len(data) > 0; {
		if w.skip > 0 {
			skipped := min(w.skip, len(data))
			w.skip -= skipped
			data = data[skipped:]
			continue
		}
		taken := min(requestHead-len(w.head), len(data))
		w.head = append(w.head, data[:taken]...)
		data = data[taken:]
		if len(w.head) == requestHead {
			key := int16(binary.BigEndian.Uint16(w.head[4:]))
			w.asked[int32(binary.BigEndian.Uint32(w.head[8:]))] = key
			w.skip = int(binary.BigEndian.Uint32(w.head)) - (requestHead - 4)
			w.head = w.head[:0]
		}
	}
	return n, err
}

func (w *wire) Write(answer []byte) (int, error) {
	if len(answer) < responseHead {
		return w.Conn.Write(answer)
	}
	w.mu.Lock()
	id := int32(binary.BigEndian.Uint32(answer[4:]))
	key := w.asked[id]
	delete(w.asked, id)
	w.mu.Unlock()
	wanted, found := w.wires.next(key)
	if found && wanted.cut {
		w.Conn.Close()
		return 0, errors.New("cut")
	}
	if found {
		throttle(answer, key, wanted.throttleMs)
	}
	return w.Conn.Write(answer)
}

// Writes a throttle time where the answers of new versions have it: at the end of Produce (before
// its tags, of which there are none), at the beginning of all others.
func throttle(answer []byte, key int16, ms int32) {
	at := responseHead
	if key == produceKey {
		at = len(answer) - 5
	}
	binary.BigEndian.PutUint32(answer[at:], uint32(ms))
}
