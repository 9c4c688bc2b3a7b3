// Command node is a complete node that tells, in capitals, how much it heard: LINGUA_URL=http://127.0.0.1:5010 go run .
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) //nolint:forbidigo // the program's root
	cfg := node.Config{URL: os.Getenv("LINGUA_URL"), Token: os.Getenv("LINGUA_TOKEN"), Slots: 4}
	cfg.Declaration = wire.Declaration{SemanticLangs: []string{"en", "es"}, TTSLangs: []string{"en", "es"}}
	err := node.Run(ctx, cfg, func(ctx context.Context, job *node.Job) (node.Result, error) {
		audio, err := job.Audio(ctx)
		heard := fmt.Sprintf("%d bytes of %s", len(audio), job.Src)
		return node.Result{TextSrc: heard, TextTgt: strings.ToUpper(heard)}, err
	})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
