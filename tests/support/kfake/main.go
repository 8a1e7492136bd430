// A Kafka cluster that is not Apache's (franz-go's kfake), steered over HTTP by a test.
//
//	kfake -id east -ports 10001,10002 -control 10000
//
// One broker per port, with node ids from 0. Requests to the control port are POSTs of JSON:
//
//	/fault    {"keys": [0], "topic": "t", "partitions": [0], "error": 6, "count": 2,
//	           "top_level": false}  -> {"id": 1}; count -1: until it is cleared
//	/hits     {"id": 1}             -> {"hits": 2}
//	/clear    {"id": 1}
//	/throttle {"key": 1, "ms": 500, "count": 3}: the next answers say so
//	/cut      {"key": 0, "count": 1}: the next requests are carried out, the answer is cut off
//	/move     {"topic": "t", "partition": 0, "node": 1}
//	/rehash   {}: other coordinators
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type control struct {
	cluster *kfake.Cluster
	wires   *wires
	mu      sync.Mutex
	faults  map[int]*kfake.FaultHandle
}

type order struct {
	ID         int     `json:"id"`
	Key        int16   `json:"key"`
	Keys       []int16 `json:"keys"`
	Topic      string  `json:"topic"`
	Partition  int32   `json:"partition"`
	Partitions []int32 `json:"partitions"`
	Error      int16   `json:"error"`
	Count      int     `json:"count"`
	TopLevel   bool    `json:"top_level"`
	Ms         int32   `json:"ms"`
	Node       int32   `json:"node"`
}

type answer map[string]any

func (c *control) carryOut(what string, o order) (answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch what {
	case "/fault":
		return c.fault(o)
	case "/hits":
		if c.faults[o.ID] == nil {
			return nil, fmt.Errorf("no fault %d", o.ID)
		}
		return answer{"hits": c.faults[o.ID].Hits()}, nil
	case "/clear":
		if c.faults[o.ID] != nil {
			c.faults[o.ID].Remove()
		}
		return answer{}, nil
	case "/throttle":
		c.wires.order(o.Key, change{throttleMs: o.Ms, left: o.Count})
		return answer{}, nil
	case "/cut":
		c.wires.order(o.Key, change{cut: true, left: o.Count})
		return answer{}, nil
	case "/move":
		return answer{}, c.cluster.MoveTopicPartition(o.Topic, o.Partition, o.Node)
	case "/rehash":
		c.cluster.RehashCoordinators()
		return answer{}, nil
	}
	return nil, fmt.Errorf("no such order: %s", what)
}

func (c *control) fault(o order) (answer, error) {
	wanted, known := kerr.ErrorForCode(o.Error).(*kerr.Error)
	if !known {
		return nil, fmt.Errorf("no error %d", o.Error)
	}
	fault := kfake.Fault{
		Topic: o.Topic, Partitions: o.Partitions, Err: wanted, Count: o.Count, TopLevel: o.TopLevel,
	}
	for _, key := range o.Keys {
		fault.Keys = append(fault.Keys, kmsg.Key(key))
	}
	id := len(c.faults) + 1
	c.faults[id] = c.cluster.Fault(fault)
	return answer{"id": id}, nil
}

func (c *control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	found, err := c.carryOut(r.URL.Path, o)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	json.NewEncoder(w).Encode(found)
}

func main() {
	portList := flag.String("ports", "", "a port for each broker, separated by commas")
	id := flag.String("id", "kfake", "the cluster's id")
	controlPort := flag.Int("control", 0, "where orders are taken")
	flag.Parse()
	var ports []int
	for _, text := range strings.Split(*portList, ",") {
		port, err := strconv.Atoi(text)
		if err != nil {
			log.Fatalf("-ports: %v", err)
		}
		ports = append(ports, port)
	}
	wires := &wires{changes: map[int16]*change{}}
	cluster, err := kfake.NewCluster(
		kfake.ClusterID(*id),
		kfake.Ports(ports...),
		kfake.ListenFn(wires.listen),
		kfake.DefaultNumPartitions(1),
	)
	if err != nil {
		log.Fatalf("starting brokers: %v", err)
	}
	server, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", *controlPort))
	if err != nil {
		log.Fatalf("-control: %v", err)
	}
	orders := &control{cluster: cluster, wires: wires, faults: map[int]*kfake.FaultHandle{}}
	log.Fatal(http.Serve(server, orders))
}
