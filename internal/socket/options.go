package socket

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// Options says how the connections of a hall behave. The zero value of each field means its default.
type Options struct {
	MaxFrame      int64         // the largest message that is read, in bytes; wire.MaxFrame
	QueueMessages int           // how many messages may wait to be written on one connection; 4096
	QueueBytes    int           // how many bytes may wait there; 1 MiB
	Ping          time.Duration // after how long a silence a ping is sent, give or take a fifth; 15 s
	Stall         time.Duration // how long one write, or a close, may take before the connection is cut; 10 s
	PerAddress    int           // how many connections one remote address may have; 0: any number
	// Origins are hosts whose pages may connect, beside those of the host that is asked itself: "app.example.com",
	// "*.example.com" for those below it, "https://app.example.com" for one scheme only, "*" for all.
	Origins []string
	// Ended is called once with how each connection ended. It should be quick.
	Ended func(CloseError)
	Log   *slog.Logger // slog.Default()
}

func (o Options) withDefaults() Options {
	o.MaxFrame = cmp.Or(o.MaxFrame, wire.MaxFrame)
	o.QueueMessages = cmp.Or(o.QueueMessages, 4096)
	o.QueueBytes = cmp.Or(o.QueueBytes, 1<<20)
	o.Ping = cmp.Or(o.Ping, 15*time.Second)
	o.Stall = cmp.Or(o.Stall, 10*time.Second)
	if o.Ended == nil {
		o.Ended = func(CloseError) {}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}
