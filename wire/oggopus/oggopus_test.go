package oggopus_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

func TestPacketDuration(t *testing.T) {
	t.Parallel()
	const ms = oggopus.Rate / 1000
	for name, c := range map[string]struct {
		packet []byte
		want   int // samples; 0: it is no packet
	}{
		"SILK, 10 ms":            {[]byte{0 << 3}, 10 * ms},
		"SILK, 60 ms":            {[]byte{11 << 3, 1, 2}, 60 * ms},
		"SILK, two of 60 ms":     {[]byte{3<<3 | 1, 1, 2}, 120 * ms},
		"hybrid, 20 ms":          {[]byte{13 << 3}, 20 * ms},
		"CELT, 2.5 ms":           {[]byte{16 << 3}, 5 * ms / 2},
		"CELT, two of 20 ms":     {[]byte{31<<3 | 2}, 40 * ms},
		"CELT, 48 of 2.5 ms":     {[]byte{16<<3 | 3, 48}, 120 * ms},
		"the largest":            {make([]byte, oggopus.MaxPacket), 10 * ms},
		"nothing":                {nil, 0},
		"too large":              {make([]byte, oggopus.MaxPacket+1), 0},
		"no count of frames":     {[]byte{16<<3 | 3}, 0},
		"no frames":              {[]byte{16<<3 | 3, 0x80}, 0},
		"longer than 120 ms":     {[]byte{16<<3 | 3, 49}, 0},
		"an Ogg page":            {[]byte("OggS\x00\x02"), 0},
		"two of 60 ms and a bit": {[]byte{3<<3 | 3, 3}, 0},
	} {
		got, err := oggopus.Samples(c.packet)
		if got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%s: %d samples, %v; want %d", name, got, err, c.want)
		}
	}
}

// packets draws the packets of a stream, with sizes at the limits of segments and pages among them.
func packets(t *rapid.T) [][]byte {
	sizes := rapid.OneOf(rapid.IntRange(1, 600), rapid.IntRange(1, 600), rapid.SampledFrom([]int{254, 255, 256, 510, 511, oggopus.MaxPacket}))
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) []byte {
		packet := make([]byte, sizes.Draw(t, "size"))
		for i := range packet {
			packet[i] = byte(i * 7)
		}
		packet[0] = byte(rapid.IntRange(0, 31).Draw(t, "config")<<3 | rapid.IntRange(0, 1).Draw(t, "frames"))
		return packet
	}), 1, 60).Draw(t, "packets")
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := &oggopus.Stream{
			Channels: rapid.IntRange(1, 2).Draw(t, "channels"), SampleRate: rapid.IntRange(0, 48_000).Draw(t, "rate"), Packets: packets(t),
		}
		file, err := oggopus.Encode(want, rapid.Uint32().Draw(t, "serial"))
		if err != nil {
			t.Fatal(err)
		}
		// Others spread packets over pages, also such that a page ends with the last full segment of a packet.
		spread := oggopus.Repaginate(file, rapid.IntRange(1, 255).Draw(t, "segments"))
		for _, file := range [][]byte{file, spread} {
			got, err := oggopus.Decode(file)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("(-want +got):\n%s", cmp.Diff(want, got))
			}
		}
	})
}

// granulePositions returns the granule positions of all pages.
func granulePositions(file []byte) (all []int64) {
	for len(file) > 0 {
		all = append(all, int64(binary.LittleEndian.Uint64(file[6:])))
		size := 27 + int(file[26])
		for _, n := range file[27:size] {
			size += int(n)
		}
		file = file[size:]
	}
	return all
}

// The granule position of a page is the number of samples up to its end; that of a header page is 0.
func TestGranulePositions(t *testing.T) {
	t.Parallel()
	s := &oggopus.Stream{Channels: 1, SampleRate: 16_000}
	for range 120 { // 2.4 s
		s.Packets = append(s.Packets, []byte{1 << 3, 1, 2, 3})
	}
	file, err := oggopus.Encode(s, 7)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{0, 0, 48_000, 96_000, 115_200}, granulePositions(file)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again, _ := oggopus.Encode(s, 7)
	if !bytes.Equal(file, again) {
		t.Error("the same stream was encoded differently")
	}
}

func TestEncodeRefusesInvalidStreams(t *testing.T) {
	t.Parallel()
	packet := []byte{1 << 3}
	for name, s := range map[string]*oggopus.Stream{
		"no packets":       {Channels: 1},
		"no channels":      {Packets: [][]byte{packet}},
		"too many":         {Channels: 3, Packets: [][]byte{packet}},
		"an empty packet":  {Channels: 1, Packets: [][]byte{packet, {}}},
		"too many packets": {Channels: 1, Packets: make([][]byte, oggopus.MaxPackets+1)},
	} {
		if file, err := oggopus.Encode(s, 1); err == nil {
			t.Errorf("%s: %d bytes", name, len(file))
		}
	}
}

// encodedTone returns a second of a tone, encoded by opusenc.
func encodedTone(t testing.TB) []byte {
	t.Helper()
	file, err := os.ReadFile("testdata/tone.opus")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestDecodeFileOfOpusenc(t *testing.T) {
	t.Parallel()
	s, err := oggopus.Decode(encodedTone(t))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, packet := range s.Packets {
		n, _ := oggopus.Samples(packet)
		total += n
	}
	if s.Channels != 1 || s.SampleRate != 16_000 || len(s.Packets) != 51 || total != 51*oggopus.Rate/50 {
		t.Errorf("%d channels, %d Hz, %d packets, %d samples", s.Channels, s.SampleRate, len(s.Packets), total)
	}
}

// A file is refused whichever byte is missing or changed.
func TestDecodeRefusesDamagedFiles(t *testing.T) {
	t.Parallel()
	file, err := oggopus.Encode(&oggopus.Stream{Channels: 1, Packets: [][]byte{{8, 1, 2}, {8, 3, 4}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range file {
		if _, err := oggopus.Decode(file[:i]); err == nil {
			t.Errorf("the first %d of %d bytes were decoded", i, len(file))
		}
		changed := bytes.Clone(file)
		changed[i] ^= 1
		if _, err := oggopus.Decode(changed); err == nil {
			t.Errorf("a change of byte %d was not detected", i)
		}
	}
	if _, err := oggopus.Decode(append(bytes.Clone(file), file...)); err == nil {
		t.Error("two streams were decoded as one")
	}
	if _, err := oggopus.Decode(append(bytes.Clone(file), "more"...)); err == nil {
		t.Error("data after the stream was ignored")
	}
}

// A missing or repeated page is detected although all pages are intact.
func TestDecodeRefusesMissingPages(t *testing.T) {
	t.Parallel()
	s := &oggopus.Stream{Channels: 1, Packets: make([][]byte, 120)}
	for i := range s.Packets {
		s.Packets[i] = []byte{8, byte(i)}
	}
	file, err := oggopus.Encode(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	pages := bytes.SplitAfter(file, []byte("OggS")) // each but the first without its first four bytes
	join := func(pages ...[]byte) []byte { return append([]byte("OggS"), bytes.Join(pages, nil)...) }
	if _, err := oggopus.Decode(join(pages[1:]...)); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(pages)-1; i++ {
		without := append(append([][]byte{}, pages[1:i]...), pages[i+1:]...)
		if _, err := oggopus.Decode(join(without...)); err == nil {
			t.Errorf("a missing page %d was not detected", i-1)
		}
		twice := append(append([][]byte{}, pages[1:i+1]...), pages[i:]...)
		if _, err := oggopus.Decode(join(twice...)); err == nil {
			t.Errorf("a repeated page %d was not detected", i-1)
		}
	}
}

// FuzzDecode checks that any bytes are an error, or a stream that survives a round trip.
func FuzzDecode(f *testing.F) {
	f.Add(encodedTone(f))
	small, err := oggopus.Encode(&oggopus.Stream{Channels: 2, SampleRate: 48_000, Packets: [][]byte{{8, 1, 2}, bytes.Repeat([]byte{8}, 600)}}, 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(small)
	f.Add(append(bytes.Clone(small), small...))
	f.Add([]byte("OggS"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, mended := range [][]byte{data, oggopus.FixChecksums(bytes.Clone(data))} {
			s, err := oggopus.Decode(mended)
			if err != nil {
				continue
			}
			file, err := oggopus.Encode(s, 1)
			if err != nil {
				t.Fatalf("a decoded stream cannot be encoded: %v", err)
			}
			again, err := oggopus.Decode(file)
			if err != nil {
				t.Fatalf("an encoded stream cannot be decoded: %v", err)
			}
			if !reflect.DeepEqual(s, again) {
				t.Fatalf("(-first +second):\n%s", cmp.Diff(s, again))
			}
		}
	})
}
