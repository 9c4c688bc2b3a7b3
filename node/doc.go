// Package node runs a node of the Lingua Scheduler: a process that receives jobs over a WebSocket and executes them with a
// Handler.
//
//	err := node.Run(ctx, node.Config{
//		URL:         "http://127.0.0.1:5010",
//		Slots:       4,
//		Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}, TTSLangs: []string{"en", "es"}},
//	}, func(ctx context.Context, job *node.Job) (node.Result, error) {
//		audio, err := job.Audio(ctx)
//		…
//		return node.Result{TextSrc: recognized, TextTgt: translated}, err
//	})
//
// A node whose declaration changes while it runs is created with New: Node.Run works like Run, and Node.Update reports the
// change.
//
// The package takes care of registration, heartbeats, reconnecting and resuming, the local limit of concurrent jobs,
// cancellation, and keeping each outcome until the scheduler has acknowledged it. It opens network connections and uses no
// other resources; it never logs audio, text or tokens.
package node
