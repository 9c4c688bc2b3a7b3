// Command node is a complete node. Its translation is the size of the audio in upper case. See ../README.md.
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) //nolint:forbidigo // the root of the program
	cfg := node.Config{URL: os.Getenv("LINGUA_URL"), Token: os.Getenv("LINGUA_TOKEN"), Slots: 4}
	cfg.Declaration = wire.Declaration{SemanticLangs: []string{"en", "es"}, TTSLangs: []string{"en", "es"}}
	err := node.Run(ctx, cfg, func(ctx context.Context, job *node.Job) (node.Result, error) {
		audio, err := job.Audio(ctx)
		size := fmt.Sprintf("%d bytes of %s", len(audio), job.Src)
		return node.Result{TextSrc: size, TextTgt: strings.ToUpper(size)}, err
	})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
