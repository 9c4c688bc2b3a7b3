// Package node is for writing a node: something that takes jobs from the scheduler and does them. Implement one Handler
// and call Run:
//
//	err := node.Run(ctx, node.Config{
//		URL:         "http://127.0.0.1:5010",
//		Slots:       4,
//		Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}, TTSLangs: []string{"en", "es"}},
//	}, func(ctx context.Context, job *node.Job) (node.Result, error) {
//		audio, err := job.Audio(ctx)
//		…
//		return node.Result{TextSrc: heard, TextTgt: translated}, err
//	})
//
// A node that changes while it runs is made with New: Node.Run works as Run does, and Node.Update declares what has changed.
//
// Registration, heartbeats, reconnecting and resuming, the local check that there is room, cancellation, and keeping
// each result until the scheduler has it are done here. The package touches the network and nothing else; it never logs
// audio, text or tokens.
package node
