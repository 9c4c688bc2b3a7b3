package oggopus_test

import (
	"fmt"

	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// A node that receives packets from its speech synthesis returns them in an Ogg stream.
func ExampleEncode() {
	packet := []byte{0x08, 1, 2, 3} // an Opus packet of 20 ms
	file, err := oggopus.Encode(&oggopus.Stream{Channels: 1, SampleRate: 24_000, Packets: [][]byte{packet, packet}}, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s, %d bytes\n", file[:4], len(file))
	// Output: OggS, 134 bytes
}

func ExampleDecode() {
	file, err := oggopus.Encode(&oggopus.Stream{Channels: 1, SampleRate: 24_000, Packets: [][]byte{{0x08, 1}, {0x08, 2}}}, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	stream, err := oggopus.Decode(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	samples := 0
	for _, packet := range stream.Packets {
		n, _ := oggopus.Samples(packet)
		samples += n
	}
	fmt.Println(len(stream.Packets), "packets,", samples*1000/oggopus.Rate, "ms")
	// Output: 2 packets, 40 ms
}
