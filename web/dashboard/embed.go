// Package dashboard has the built files of the dashboard. Its sources are beside it; make dashboard builds them.
package dashboard

import "embed"

// Files are the files of the page, below dist.
//
//go:embed dist
var Files embed.FS
